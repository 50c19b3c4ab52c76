"""Comparison of results: the core shared by the tester, `interp.diff` and the tools.

- `equality`: equal codes, or both NaN. `ulp`: distances. `faithful`: the neighbours of the exact value.
- `open_points`, `choices`: results left open by formats and operations, and the choices known for them.
- `faults`: fault models as records. `diagnosis`: the faults that explain results.
- `sums`: sums as the permitted accumulators form them.
- `functions`: the accuracy required of functions. `grades`: grades of elements, with reasons.

Identifiers link the tables, reports and causes. Sentences are for people; they can be reworded at any time.
"""
