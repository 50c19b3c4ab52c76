"""Random StableHLO programs, to compare minihlo with XLA's CPU compiler and StableHLO's C++ interpreter.

`python -m tools.random_programs --count 2000 --seed 0` makes programs (`rules`), runs them here and in child processes
(`peers`), compares every step on the same operands (`compare`), and reports each difference that is not a known
behaviour of a peer (`known`) as one op with its operands.
"""
