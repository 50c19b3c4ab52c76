"""Whole groups of elementwise ops, and sums of them, in one pass, where numba is installed.

A group is described by a `recipes.Recipe`, of which `programs` makes a program; `opcodes` names its ops. `run` lays the
operands out and calls `machine`, which numba compiles, with the `loops` that it is made of.
"""
