"""Judges the results of a backend: verdicts, open points, and faults that explain failures."""
