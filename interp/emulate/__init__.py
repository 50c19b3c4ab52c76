"""Emulation: a program rewritten into plain StableHLO that computes the same minifloats with integers and tables."""
