"""Sums of products of matrices through a kernel that numba compiles, where it is installed."""
