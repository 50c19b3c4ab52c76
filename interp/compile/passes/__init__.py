"""The passes: each makes of a region another one that computes the same; `planner.py` has their order."""
