"""Sums: their terms, the accumulators that are allowed or known, and the faults that explain wrong ones."""
