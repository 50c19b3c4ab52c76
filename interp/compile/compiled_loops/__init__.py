"""Compiles loops over single numbers by numba, where it is installed, once they have run for a while as Python.

The rule. The text of a loop in which there is nothing but booleans, integers of at most 32 bits, floats of 32 or 64 and
elements of arrays of these, and no kernel, is a function of 64-bit integers and floats too: sums and products of
integers that overflow there are right in their lower bits, which are all that is kept, and floats are rounded op by op,
as numpy does. Loops within it are compiled with it. It is compiled when it has taken a twentieth of a second in all. A
compiled loop comes back now and then, so that Ctrl-C and the processes of a grid can stop it. It writes to copies of
its arrays, whose names are looked at before (`source/compilable.py`). Which of two NaN a sum gives is up to the
compiler: where a NaN comes out, the turns are made again as Python.

Measured: 10,000 turns of 5 ops on integers 4.6 ms as Python, 0.03 ms compiled; 10**5 turns of 0.9 * c + v in f32 24 ms
over rows as Python, 2.7 in chunks, 0.4 compiled. 10,000 turns that read and write places of a table of 1,024 integers
5.3 ms and 0.06; the distance of two texts of 100 letters, turn by turn, 1.8 ms with a loop of columns compiled, and
0.10 with that of rows.
"""
