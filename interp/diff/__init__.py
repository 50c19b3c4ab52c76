"""Finds where a backend departs from the exact result: op by op, each op on the backend's own operands.

`compare.compare` is for users, `compare.examine` for the command line. `source` keeps a program together with its
MLIR, from which it cuts out single ops; `walk` has the two ways to get a backend's values; `judge` compares its
results with ours, `outputs` those of the whole program; `report` is the result of a comparison.
"""
