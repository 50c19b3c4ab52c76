"""Test vectors as files: cases with operands and acceptable results, and the judgement of returned results.

A chip, a simulator or a board can use them without Python or StableHLO. `export` writes a folder, `results` reads
the returned results, `judge` grades them with the verdicts of a live run. A *call* is the computation of one function
call: a case in one form is one call, or several if a scalar meets arrays of each code.
"""
