"""The passes: each rewrites a region to one that computes the same. The docstring of the package above lists them."""
