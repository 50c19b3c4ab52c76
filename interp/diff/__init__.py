"""Where a backend departs from the exact result: a program op by op, each op given the backend's own operands.

`compare.compare` is for users, `compare.examine` for the command line. `source` keeps a program together with its
MLIR, of which it cuts out single ops; `walk` and `whole` are the two ways to get a backend's values; `judge` holds its
results against ours; `report` is the result of a comparison.
"""
