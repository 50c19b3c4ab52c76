"""The passes: rewrites of a region into one that computes the same, in the order in which `machine.py` calls them."""
