"""Finds numerical problems of a model: the losses of each tensor in low precision, and the operations that matter.

`profile` counts the losses of each operation, and `plan` chooses the cheapest formats that keep a bound.
"""
