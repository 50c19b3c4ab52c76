"""The passes: rewrites of a region into one that computes the same, applied in the order in which `machine.py` calls them."""
