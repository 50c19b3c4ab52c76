"""Where a model's numbers go wrong: what each tensor of a low precision loses, and which operation matters.

`profile` counts what the values of each operation suffer, and `plan` chooses the cheapest formats that keep a bound.
"""
