"""How results are compared: the one core that the tester, `interp.diff` and the tools share.

- `equality`: equal codes, or both NaN. `ulp`: distances. `faithful`: the neighbours of the exact value.
- `open_points`, `choices`: what formats and operations leave open, by identifier, and which choice a result is.
- `faults`: fault models as records. `diagnosis`: the faults that explain results.
- `sums`: what a sum in an allowed accumulator can give.
- `functions`: how near the results of functions have to be. `grades`: grades of elements, and why.

Identifiers link the tables, reports and causes. Sentences are for people and can be reworded at any time.
"""
