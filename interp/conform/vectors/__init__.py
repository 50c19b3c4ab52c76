"""Test vectors as files: cases with operands and acceptable results, and the judgement of results that come back.

A chip, a simulator or a board needs neither Python nor StableHLO for them. `export` writes a folder, `results` reads
what came back, `judge` grades it with the verdicts of a live run. A *call* is what one function call computes: a case
in one form is one call, or several if a scalar meets arrays of each code.
"""
