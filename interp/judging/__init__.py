"""One vocabulary for all that judges: the tester, `interp.diff`, probes, vectors and the tools.

- `record`: verdicts, grades, `Diagnosis`, `Fault` and `Choice`. `table`: the one sentence of each identifier.
- `groups`: records that have something in common. `equality`: equal codes, or both NaN, distances in ULP, and grades
  of elements. `functions`: the accuracy required of functions.
- `open_points`: results left open by formats and operations, with the known choices. `left_open`: where they occur.
- `faults`: fault models. `diagnosis`: the faults, and the positions, that explain results.
- `sums`: `Hypothesis` of how sums are formed, and the search for the one that explains results.
"""
