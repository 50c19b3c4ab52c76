"""Sums: their terms, permitted and known accumulators, and faults that explain wrong results."""
