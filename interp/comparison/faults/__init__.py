"""Fault models: wrong ways to compute, each a record with an identifier, a sentence and a function."""
