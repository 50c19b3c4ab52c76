"""Ops that move elements and do not compute: shapes, slices, gathers, scatters and sorting."""
