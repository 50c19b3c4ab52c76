"""Loops over tensors of a few elements as loops over single numbers: what `passes/numbers.py` is made of."""
