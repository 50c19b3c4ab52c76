"""Compiles a function of a `Program` to a `Plan`: Python functions that call the kernels of `ops`.

`planner.py` runs the passes in the order of the list below. A pass takes a region and gives one that computes the same;
one that nothing can be done to comes back as the same object. Regions that no pass has changed run op by op, each by
the kernel of its declaration, which is how programs run with all optimizations off.

1. `passes/inline.py`: short functions, and those called once, replace their calls.
2. `passes/fold_constants.py`: operations on constants are computed once; again after loops are unrolled.
3. `passes/share.py`: what is computed twice from the same values is computed once (CSE).
4. `passes/floored.py`: quotients and remainders rounded down, of several operations, become one operation.
5. `passes/indices.py`: iotas, and integers computed from them, become smaller arrays of 32 bits.
6. `bind.py`: every operation is verified and gets its kernel. The operations that later passes put in are bound then.
7. `passes/padding.py`: a `pad` is merged into the `reduce_window` that reads it.
8. `passes/reordered.py`: in loops, computing with a number comes before broadcasting it; reshaping comes before
   computing.
9. `passes/slices_last.py`: in loops, computing with a small tensor comes before slicing it.
10. `passes/chosen_writes.py`: writes that are chosen or not become writes that choose what to write.
11. `passes/writes_last.py`: in loops, an array is read before a part of it is changed.
12. `passes/unused.py`: operations that nothing depends on are removed (DCE).
13. `passes/unroll.py`: loops of a few iterations are written out.
14. `passes/turns.py`: what the iterations of a loop compute without each other is computed for all of them at once.
    What remains is a recurrence over rows, or nothing.
15. `passes/vectors.py`: recurrences over small vectors are marked, of which compiled code can make all turns.
16. `passes/numbers.py`: loops over tensors of a few elements become loops over single numbers.
17. `passes/affine.py`: recurrences that are affine in an integer are marked; their iterations are composed.
18. `passes/find_scans.py`: loops that carry 8-bit codes are marked, to be run along a table of all pairs of codes.
19. `passes/narrow.py`: clipping before a conversion to a minifloat becomes part of the conversion.
20. `passes/fuse.py`: elementwise operations, and reductions of their results, become groups.
21. `chains/find.py`: groups and reductions over the same rows become row programs, where numba is installed.
22. `emit.py`: each region becomes the text of a Python function, and is compiled.

What these passes are made of:

- Reading loops: `passes/loops.py` (counting loops), `passes/components.py` (which carried values need each other),
  `counters.py` (ranges of carried integers), `affine_turns.py` (iterations that are affine), `bit_windows.py`
  (or are in some bits), `selection.py` and `reductions.py` (bodies of reductions), `passes/ahead.py` (places
  that are known before the loop), `uses.py`.
- Taking loops apart: `passes/batching.py` (one iteration to all), `passes/side_by_side.py` (inner loops of different
  lengths), `passes/forward.py` (rows that an earlier iteration wrote become states).
- Loops of single numbers: `numbers/values.py` (the elements of values), `numbers/steps.py` and `numbers/parts.py`
  (operations and regions on them), `numbers/positions.py`, `numbers/work.py` (whether they pay), `packing.py`.
- Loops of small vectors: `vectors/build.py` (a turn as the data that code is made of), `vectors/lies.py` (how arrays
  lie), `vectors/windows.py`, `vectors/halves.py` (functions of f16 and bf16).
- Groups: `group.py` (a group as data), `leaf.py`, `passes/fusible.py`, `fusion/deferred.py` (operations that wait for a
  group), `fusion/grouping.py` (groups in the making), `fusion/row_tables.py`.
- Row programs: `chains/program.py` (one as data), `chains/chain.py`, `chains/places.py` (what lies along rows),
  `chains/build.py`.
- Rebuilding regions: `passes/rewriting.py`.

How an operation runs is chosen by `choose.py`, which gives the name of an executor and the reason (`decision.py`,
printed by `explain.py`). `executors/` has the ways to run: `alone.py` (by its own kernel), `table.py`, `tables.py`,
`rows.py`, `columns.py` and `row_pairs.py` (lookup tables), `ranks.py`, `blocks.py` and `folds.py` (block by block),
`words.py` (few elements in one integer), `compiled.py` and `row_programs.py` (compiled by numba), `scan.py`,
`recurrence.py`, `vector_turns.py`, `ahead.py`, `composition.py`, `windows.py` and `loops.py` (loops). `job.py` is what
they take, `ways.py` lists them.

Kernels that regions need: `kernels.py` finds them by name and types, `generate.py` makes one of a group, `vectorise.py`
one of a region of single numbers, `expand.py` of operations that only jaxlib's passes define, `specialize.py` of
dynamic shapes, `processes.py` of what prints or communicates.

The text of functions: `writer.py` (lines and names), `flow.py` (loops and branches as Python's), `scalars.py` (single
numbers as Python's), `elements.py` and `indexing.py` (indexing as Python's), `source/`: `lines.py`, `inlining.py`,
`ranges.py` and `intervals.py` (shorter lines and expressions), `compilable.py` (what of them can be compiled), and
`compiled_loops/` (loops that numba compiles): `loops.py`, `code.py` and `types.py`.
"""
