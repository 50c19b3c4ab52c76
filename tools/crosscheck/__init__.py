"""Comparison of minihlo with four peers on every code and pair of codes of minifloats.

`cases` lists the ops and makes programs of them, `peers` runs them, `causes` explains what differs, `table` holds the
divergences that are known, and `page` renders them. `python -m tools.crosscheck` says what is not as the table has it.
"""
