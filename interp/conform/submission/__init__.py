"""Submissions: the results of a run on a profile in one file, which others can check."""
