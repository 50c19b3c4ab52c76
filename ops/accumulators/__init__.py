"""Sums of products: accumulators as records, one routine that computes any of them, and the units of chips."""
