"""Ops that apply a body along dimensions: reductions, windows, scans and normalization."""
