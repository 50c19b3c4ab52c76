"""Sizes and counts of work on arrays."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ArrayTuning:
    """Of parts of arrays and threads, lookup tables, conversions, reductions, sorting."""

    #: The most bytes of all lookup tables together; the oldest are dropped first. A program uses some MiB of tables.
    #: Not measured: a limit of memory.
    most_bytes: int = 1 << 27
    #: How many shapes one use of an op keeps index arrays of. A static program has one shape, a dynamic one few.
    #: Not measured: a limit of memory.
    shapes: int = 16
    #: Bytes up to which a single number is kept repeated: those of a block. Not measured: a limit of memory.
    repeated_bytes: int = 1 << 18

    # -- blocks and threads --

    #: Elements of a block. Two threads, 10**6 elements, blocks of 2**15 and 2**17, ms: quantize 4.0 and 2.9,
    #: softmax 8.8 and 7.2, silu(a) * b 2.4 and 1.5. An array of one block is left to one thread.
    block: int = 1 << 17

    #: The same of groups of so many operations, which hold many arrays: JAX's normal numbers are groups of 125 and 39.
    #: 65,536 of them and as many uniform ones take a tenth longer with 2**15 than with 2**17, in a third of the memory.
    #: Larger arrays have eight parts, up to `block`: 10**6 uniform numbers take 7.5 ms with 2**15 and 5.4 so, as the
    #: calls of two threads are long enough that they do not wait for each other.
    block_long: int = 32
    block_of_long: int = 1 << 15

    #: Matrices that lie across are laid out in squares of so many rows and columns, of half where their columns are a
    #: multiple of 4 KiB apart. As a whole and so, ms: 1000x1000 f32 0.65 and 0.57, f16 0.48 and 0.39, 1024x1024 13.9
    #: and 1.3, 2.5 and 1.2; 4096x512 bytes 9.0 and 1.3.
    across_side: int = 1 << 7
    #: So are rows of up to so many elements that are reduced, where there are so many of them, so many at a time. The
    #: least of each row of f32, 10^6 in all, ms, as they are and so: rows of 10 4.4 and 0.54, of 32 1.65 and 0.96, of
    #: 64 0.99 and 1.17; of booleans in rows of 15 1.4 and 0.30.
    across_short: int = 32
    across_short_many: int = 1 << 8
    across_short_part: int = 1 << 14
    #: LLVM makes code for it, in 40 ms, once so many elements of matrices of so many have been laid so. By numpy and
    #: so, ms: 1000x1000 f32 1.0 and 0.33, 1024x1024 3.3 and 0.49, 4096x512 9.2 and 0.66, 128x130 0.009 and 0.014.
    across_worth: int = 1 << 25
    across_many: int = 1 << 16
    #: Arrays of so many bytes begin with a line of the cache, which takes 2 µs. A training step of an LSTM with
    #: arrays of 16 to 300 KiB: 4.6 ms with 2**15, 4.1 with 2**18.
    aligned_bytes: int = 1 << 18

    #: Work is timed by several threads and by one in turn for so many calls, and again after so many. Whole steps
    #: beside XLA, ms by two threads on a quiet machine and by one on a busy one: sum of columns of f32 1.03 and 0.58,
    #: exp 3.25 and 2.35, add of f16 4.1 and 3.3.
    pace_trials: int = 6
    pace_calls: int = 100

    #: Elements of a part whose f64 stays in the cache while a function of f32 is computed in it. 10^6 of exp on one
    #: thread, ms, with 2**15, 2**16 and 2**17: 2.35, 2.30 and 2.45; on two, on another machine, with the last two 0.96
    #: and 0.84: calls have to be so long that threads do not wait for each other.
    function_block: int = 1 << 17
    #: Up to so many elements a function takes fewer calls on 64 bits rather than more on 32. In µs so and in parts:
    #: 4,096 of tanh 16 and 25, 2**14 48 and 88, 2**15 110 and 122.
    function_small: int = 1 << 14
    #: Up to so many elements of f32 the least and the largest that results may be are rounded and compared. 16 of exp
    #: take 2.3 µs so and 6.5 otherwise, 512 3.6 and 7.9, 4,096 13.5 and 13.9.
    function_few: int = 512

    # -- lookup tables --

    #: One call of `take` is the quickest way up to this size: of 2**13 codes 8 µs and 10 in parts, of 2**14 16 and 11.
    lookup_few: int = 1 << 13
    #: Indices of pairs are joined in place up to this size, which takes a third of the time of new arrays.
    lookup_tiny: int = 512
    #: Up to so many codes are decoded to f64 at once, rather than in pairs to f32 and then: 2**14 18 µs and 26.
    lookup_wide: int = 1 << 14
    #: A table of pairs of entries is made after so many lookups: 0.45 ns a lookup becomes 0.25.
    pairs_from: int = 1 << 17
    #: Bytes of an entry up to which a table of pairs stays in the cache.
    pairs_entry_bytes: int = 4
    #: What one call costs beside its elements, in elements of 10 µs: of an exact function computed by itself.
    call_cost: int = 32
    #: The same in elements of 0.3 µs: of exact sums, products and the like.
    basic_call_cost: int = 1 << 10
    #: The table from f64 to a format is made after so many elements.
    cast_worth: int = 1 << 20

    # -- f16 and bf16 --

    #: f16 is converted by steps over arrays from so many elements on: f32 to f16, ns an element by numpy and by steps,
    #: of 2**13 1.9 and 2.5, of 2**14 1.9 and 1.8, of 2**17 1.9 and 1.4.
    half_many: int = 1 << 14
    #: From so many elements on bf16 is compared as f32: 10**3 take 1.5 µs either way, 10**5 109 and 27.
    bf16_compared: int = 1 << 10
    #: Elements of f16 converted at a time: f32 to f16, ns an element, 2**14 1.5, 2**15 1.4, 2**16 1.2, 2**17 1.2. Of
    #: equal ones the larger: threads wait for each other between calls of numpy.
    half_block: int = 1 << 17
    #: Elements whose codes stochastic rounding chooses together, so that they stay in the cache. Measured on 10^6
    #: elements of f32 to bf16, in ms: by 2**17 10.8, by 2**15 3.4.
    stochastic_block: int = 1 << 15

    # -- transition tables --

    # A row of 64 codes: 1.3 µs for two bytes side by side in an index, 1.6 for indices joined by ops, which of wide
    # rows are the quicker; a code at a time in Python 0.1 µs.

    #: Up to so many accumulators go one after the other; from `transition_many` on, indices are joined by ops.
    transition_few: int = 24
    transition_many: int = 256
    #: A table is made for so many steps of all accumulators; a step of few accumulators counts as so many.
    transition_worth: int = 1 << 16
    transition_few_cost: int = 16
    #: Columns of one thread; elements between two looks for Ctrl-C; elements laid out at a time.
    transition_columns: int = 128
    transition_block: int = 1 << 22
    transition_indices: int = 1 << 15
    #: The fewest rows of a piece, the most accumulators of all pieces, and the most elements in one go. A moving
    #: average of 1,000 rows of 64: 1.25 ms as a whole, 0.68 in pieces.
    piece_rows: int = 128
    piece_columns: int = 1024
    piece_elements: int = 1 << 22
    #: The fewest pieces that pay, and the fewest accumulators in all of them.
    pieces: int = 4
    pieces_columns: int = 64
    #: Paths are compared after so many rows; a row costs as much as so many accumulators beside its own.
    piece_look: int = 16
    piece_row_cost: int = 256

    # -- reductions and windows --

    #: Elements brought together at a time, which fit the first-level cache; 2**12 to 2**18 differ by less than 10 %.
    reduce_block: int = 1 << 15
    #: Slices that lie together in memory and are so long are added one by one.
    reduce_long: int = 1 << 11
    #: Maxima of so many minifloats are found by their ranks.
    reduce_ranks: int = 1 << 12
    #: Rows of bytes up to which ranks are compared step by step, and slices that do not lie together.
    rank_steps: int = 32
    rank_slices: int = 8
    #: Up to so many elements what prepares a fold costs more than the fold, so there are no parts and no views.
    reduce_small: int = 1 << 13
    #: Running sums of rows of at least so many elements, no fewer than there are rows, are formed row by row. Column by
    #: column and so, ms: 3 rows of 10**6 i32 12 and 0.15, of f32 23 and 0.19, 1,000 of 1,000 f32 3.1 and 0.72. Where
    #: columns lie together in memory, there are no more rows than so many of integers: 5 rows of 200,000 i32 2.6 and
    #: 0.31, 32 of 30,000 1.1 and 0.71, 100 of 10,000 0.42 and 0.65, of f32 2.9 and 0.61.
    running_wide: int = 1 << 9
    running_few: int = 1 << 5
    #: Maxima of rows of so many elements of f32 and f64 are found column by column: 128 rows of 32 take 3 µs so, and 12
    #: row by row; 256 rows of 64 18 and 24, 64 rows of 512 37 and 9.
    extreme_short: int = 1 << 6
    #: Elements with the same key, in one of many rows, up to which they are taken one after the other. Not measured.
    choose_few: int = 16
    #: Steps up to which elements with the same key are left to the fold of all: `jnp.argmax` along the first axis of
    #: 9 x 10^5 numbers of four values takes 27 ms one after the other and 8 so.
    choose_steps: int = 32
    #: Rows up to which the one element with the largest key of each is taken at once. `jnp.argmax` of rows of 60, µs:
    #: one row 80 and 45, 64 rows 100 and 50. Of more rows it has not been measured.
    choose_together: int = 64
    #: The share of columns up to which those whose initial value may be chosen are looked at by themselves: the steps
    #: of `argmax` of 250,000 columns of truth values take 1 ms, and as long again to take half of the columns apart.
    choose_left: float = 1 / 8
    #: f32 of up to so many elements are converted to minifloats as one part: 512 take 5 µs so, and 9 by parts.
    convert_few: int = 1 << 12
    #: Elements of windows laid out at a time.
    window_block: int = 1 << 20
    #: Windows of up to so many elements are folded at once where there are at least so many, in parts of this size.
    window_few: int = 128
    window_many: int = 1 << 10
    window_part: int = 1 << 15
    #: Windows over at least so many places, of which all but one of so many are padding, skip the padding: one takes
    #: a millisecond or more by itself, and a tenth of that so.
    padded_from: int = 1 << 20
    padded_share: int = 4
    #: Steps among which a cycle is looked for. A byte comes round in 256; powers of a float end within 2,100.
    padded_steps: int = 1 << 12
    #: Steps and elements folded at a time, and gaps that are filled with padding instead.
    padded_part: int = 1 << 16
    padded_gap: int = 16
    #: A scatter folds the updates of few rows each by itself, as one such fold takes as long as so many steps on all
    #: rows that are left. 5,000 updates of 20,000 rows: 2.5 ms without, 1.5 with.
    scatter_steps: int = 4
    #: Where updates do not matter, elements that have more are changed by a table; turns of one element are made so
    #: many at a time, up to where it stays as it is. 10**6 updates of 1,000 bf16, one turn after the other and by a
    #: table: 25 ms and 7.
    repeats_few: int = 1 << 5
    repeats_step: int = 1 << 10
    #: Up to so many updates of rows of so many elements and more are made row by row, 1 µs each. 16 updates of 8 rows
    #: of 2,048 f32: 170 µs together, 45 row by row.
    scatter_few: int = 64
    scatter_wide: int = 256

    # -- sorting and choosing --

    #: Rows of codes of this length are sorted by counting, unless more ranks than this have several codes.
    sort_counted: int = 4096
    sort_together: int = 3
    #: A comparator is evaluated for all pairs of codes once so many elements are sorted.
    sort_worth: int = 1 << 16
    #: Each element of short rows is compared with each, up to so many pairs. Rows of f32, µs, so and by guesses: of 4
    #: 40 and 89, of 32 48 and 89, of 64 66 and 90.
    sort_pairs: int = 1 << 12
    #: Codes sorted at a time in short rows: their places take eight times as much memory. Not measured: a limit of it.
    sort_at_once: int = 1 << 20
    #: Rows of at least so many elements are partitioned before the largest are sorted.
    top_k_long: int = 64
    #: The first few of a row by a comparator, of so many times as many elements, are looked for among those that do not
    #: come after one of them: one of a sample of every so many, of which so many more are to come before it. 10 of
    #: 10**6 f32 take 107 ms by sorting all and 0.8 so.
    first_of: int = 64
    first_more: int = 8
    #: From so many elements on the neighbours of f32 and f64 are found by steps over arrays: 3,000 of f32 take 6 µs by
    #: numpy and 9 so, 10**6 8,700 and 1,200, as numpy's branches are foreseen no more.
    neighbours_many: int = 1 << 13
    #: From so many elements on remainders of floats come from quotients of arrays: 1,000 of f32 take 3 µs by numpy and
    #: 7 so, 131,072 2,000 and 210, by 1 1,000 and 70.
    remainder_many: int = 1 << 12
    #: From so many elements on a choice by bits is quicker than `np.where`, whose time depends on the pattern.
    select_many: int = 4096
