"""Ops that give each element by itself: arithmetic, functions, comparisons, conversions, and CHLO's."""
