"""Sizes and counts that decide which of several ways is taken. None of them can change a bit of a result.

A record of them travels with `Speed`, which a plan has: kernels read `speed.tuning()` when they run. A number that
decides in which order floats are summed is no tuning, and is defined where the sum is formed.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Thresholds and block sizes, each with what measured it. Counts are of elements unless something else is said.

    Measured on two cores of an x86-64 server with 2 MiB of second-level cache each, with numpy 2.4.
    """

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

    # -- products and prefixes --

    #: Products of up to four terms for each sum are formed all at once where there are so few terms. 4×4 matrices take
    #: 6.3 µs term by term and 2.8 so, 8×4 by 4×8 6.5 and 3.2, 64×4 by 4×64 12 either way.
    short_together: int = 1 << 9
    #: Terms of a product that take as long as one element of an array, for whether threads pay.
    product_terms: int = 1 << 6
    #: The same of products of two bytes by the processor's tiles, which take products of so many terms and more: those
    #: of 64**3 take 66 µs by tiles and 63 in f64, of 16 x 64**3 200 and 380.
    tile_terms: int = 1 << 9
    tile_from: int = 1 << 18
    #: Tiles of a part whose sums turn out not to fit 32 bits before no more are tried: such a tile is summed twice.
    #: Not measured: a part has some hundred tiles.
    tile_tries: int = 8
    #: The same of 16-bit words, for whose code LLVM takes 0.4 s: products of 64**3 take 50 µs so and 46 in f64, of
    #: 256 x 64 x 64 73 and 105, of 512**3 1,600 and 4,600. A matrix is cut into so many parts. The pairs that are
    #: listed on both sides, over all pairs: with more of them f64 takes less.
    word_from: int = 1 << 19
    word_terms: int = 1 << 8
    word_worth: int = 1 << 30
    word_parts: int = 4
    word_lists: float = 1.2
    #: Sums that an accumulator forms at a time, and the bytes of their operands. 256**3 products of f8E4M3FN as the
    #: H100 sums them: 53 ms with 2**14, 44 with 2**15, 42 with 2**16; as the V100 does, of f16: 127, 158 and 137.
    accumulator_tile: int = 1 << 15
    accumulator_operand_bytes: int = 1 << 25
    #: Products of a step that are computed together, of all sums. 300 dots of 64 products in steps of 16, each step by
    #: one call or product by product: 0.3 and 1.1 ms.
    accumulator_block: int = 1 << 13
    #: Sums that many records of one kind form of the same dots, at a time.
    accumulator_records: int = 1 << 13
    #: Steps of a prefix fold that are made one by one where no transition table pays: 10 µs each, the table 1 ms.
    prefix_steps: int = 100

    # -- groups of ops, and loops --

    #: What a call of a group costs beside its elements, in elements.
    group_call_cost: int = 32
    #: Groups whose tables are kept. Not measured: a limit of memory.
    tables_of_groups: int = 1024
    #: A table for each row, or each column, pays where there are so many times more elements than entries. x * scale +
    #: bias of f8E5M2, by these tables and by ops, ms: 250 rows of 1,024 0.48 and 0.76, of 4,096 1.4 and 2.8; columns of
    #: 1,024 0.27 and 0.59, of 4,096 1.1 and 2.3.
    rows_pay: int = 3
    columns_pay: int = 3
    #: Elements of rows whose tables are made together: making some takes 40 µs beside their entries. The end of a
    #: softmax of f8E4M3FNUZ, 1000 rows of 1000, on one thread, ms, with 2**16, 2**17 and 2**18: 1.78, 1.52 and 1.37.
    rows_block: int = 1 << 18
    #: Bytes that the tables of all columns may take, and columns whose numbers fit a byte of an index.
    columns_bytes: int = 1 << 24
    columns_together: int = 256
    #: Columns that go together in compiled code, by the bytes of an entry: their tables take 32 KiB. x * scale + bias
    #: of f8E5M2, 1000², ns an element, with 1000, 256, 128 and 64: 0.58, 0.30, 0.27 and 0.30.
    columns_strip: int = 128
    #: So many lookups of bytes by the processor's permutations take as long as one element of other work.
    octets: int = 8
    #: Tables of f32 are laid out for these permutations where a thread has so many elements: laying one out takes as
    #: long as 2,000 lookups.
    planes_from: int = 1 << 13
    #: Sums and the like that are formed side by side; fewer columns of extremes are formed part by part.
    fold_columns: int = 256
    #: The elements of a part of them, where columns are short. 125,000 outer products of 8 numbers, summed by columns,
    #: take 54 ms by 256 sums at a time and 3.6 so.
    fold_part: int = 1 << 17
    fold_few: int = 8
    #: Up to so many sums of so many steps and more are formed one by one. 1,000 steps of f32, µs, side by side and so:
    #: of 2 sums 20 and 11, of 16 53 and 33, of 32 46 and 51; 100 steps of 8 6 and 9.
    fold_single: int = 16
    fold_steps: int = 1 << 8
    #: Rows in which one code stays the same are summed two at a time where so many have the same code, there are eight
    #: times as many in all, and so many steps. Sums of exp(x - largest) with the largest before, ms on one thread, one
    #: row at a time and so: 1000 rows of 1000 1.87 and 1.31, 512 of 2,048 1.95 and 1.33; of fewer rows 256 of 256 0.19
    #: and 0.32, of fewer steps 4,096 of 128 1.5 and 1.8.
    row_pairs_rows: int = 1 << 6
    row_pairs_steps: int = 1 << 8
    #: A reduction of so many elements is worth fusing: a sum of squares of 10**6 f32 takes 1.1 ms and 2.1 unfused, one
    #: of 2**12 20 µs either way; the same where compiled code runs groups: 512 f32 take 10 µs and 20 unfused. A group
    #: has at most so many ops: a limit of the time of planning. JAX's normal numbers are 165.
    fuse_many: int = 1 << 14
    fuse_many_compiled: int = 1 << 9
    fuse_longest: int = 250
    #: Nanoseconds an element up to which a value that a group needs is computed again, rather than kept as an array;
    #: the same of large values, from so many bytes on, and where the compiled machine runs the group: a lookup costs
    #: it no more than an array in memory.
    again_cost: float = 0.3
    again_cost_large: float = 1.0
    again_large_bytes: int = 1 << 25
    again_cost_compiled: float = 0.6
    #: The same of what is reduced and needed after, and where the compiled machine runs it: exponentials of a softmax
    #: are kept, centred numbers of a layer norm are not. Softmax of 1000x1000 f16 on one thread, ms: with exponentials
    #: computed twice 10.6, once 7.8; by the machine 2.6 and 2.9. The machine's limit is below the cost of a function of
    #: f32: a training step with gelu, which is scaled by its largest number, takes 9.3 ms for 9.9.
    again_cost_reduced: float = 0.75
    again_cost_machine: float = 5.0
    #: Functions of up to so many ops are put in the place of their calls, as long as all that a function gains are no
    #: more than so many. Not measured: limits of the size of plans. JAX's function of random bits has 222.
    inline_ops: int = 250
    inline_total: int = 2000
    #: A loop of up to so many turns is written out if that makes no more ops than this, and all loops of a function
    #: together than that. Not measured: limits of the size of plans. JAX's random bits are 5 turns of 50 ops.
    unroll_turns: int = 8
    unroll_ops: int = 320
    unroll_total: int = 2000
    #: Tensors that the tables of rows and columns are looked for among. Not measured: a limit of the time of planning.
    rows_leaves: int = 16
    #: Results of ops on constants are computed once up to this many bytes. Not measured: a limit of memory.
    fold_bytes: int = 1 << 20
    #: Constants of up to this many bytes are compared when operations are shared. Not measured: a limit of the time of
    #: planning.
    share_bytes: int = 1 << 10
    #: The table of a narrowed value is made after so many elements.
    narrow_worth: int = 1 << 16
    #: Tensors of so many elements are single numbers in loops where that is less work, by these estimates in µs: of an
    #: operation on an array, of a function of f32 or an operation on f16 there, of an operation of a reduction's body,
    #: of a scatter and of a product of up to four terms; of an operation on a number, on one that is whole and has to
    #: be brought into its range, and of a function of f32; of taking an array apart or putting it together. Compiled,
    #: numbers are so many times as fast. A loop has at most so many operations on numbers, and regions at most so deep:
    #: limits of the time of planning.
    number_elements: int = 32
    array_cost: float = 0.38
    array_function_cost: float = 3.0
    array_fold_cost: float = 4.0
    array_scatter_cost: float = 10.0
    array_product_cost: float = 5.0
    number_cost: float = 0.04
    number_integer_cost: float = 0.07
    number_function_cost: float = 0.3
    pack_cost: float = 1.0
    numbers_compiled: float = 4.0
    number_ops: int = 2000
    number_depth: int = 8
    #: A tensor of up to so many elements is computed with as a whole before it is sliced, in loops, if so many elements
    #: at most that nothing needs are computed for each call that is saved, and so many operations in a row: a limit of
    #: the time of planning. exp takes 2.3 µs of 16 elements and 3.6 of 512.
    slices_most: int = 1 << 12
    slices_wasted: int = 1 << 8
    slices_rounds: int = 8
    #: Elements up to which a constant in a loop is compared with its first one. Not measured: a limit of the time of
    #: planning.
    repeated_constant: int = 1 << 16
    #: Sums and products that are brought into the range of their type together. Not measured: Python's own integers
    #: grow with each.
    chained_integers: int = 3
    #: Seconds that a loop takes as Python before it is compiled, and the turns after which a compiled one comes back
    #: to look for Ctrl-C.
    loop_seconds: float = 0.05
    loop_turns: int = 1 << 24
    #: A loop of more lines is not compiled: 244 lines take the compiler 2 s on a quiet machine and 7 on a busy one.
    loop_lines: int = 300
    #: A loop within another copies the arrays that it writes to when it begins: of so many bytes at most.
    loop_copied: int = 1 << 16
    #: Turns of a recurrence that compiled code makes before it comes back: some ms.
    compiled_turns: int = 1 << 20
    #: Loops on vectors of so many elements at most are compiled as a whole, if a turn has no more instructions than so
    #: many; what all turns share may have more elements. Up to the first number a vector is in registers. Not measured:
    #: limits of the time that LLVM takes, some 0.1 ms for an instruction. After so many turns they come back, and turns
    #: with NaN are made again. Seconds that turns take before: LLVM takes 30 to 110 ms for the turns of an LSTM.
    vector_elements: int = 128
    vector_long: int = 1 << 16
    vector_shared: int = 1 << 18
    vector_steps: int = 600
    vector_turns: int = 1 << 14
    vector_seconds: float = 0.03
    #: The turns that code may leave to Python, as it cannot tell how to round, for each that it makes.
    vector_left: float = 1 / 64
    #: The turns over which a row that was written is handed on, each by a state. Not measured: a limit of states.
    forward_turns: int = 4
    #: The most turns of a loop that run side by side, and the most bytes of what they keep between operations that are
    #: not elementwise: an eighth of the memory of a small machine.
    turns_most: int = 1 << 24
    turns_bytes: int = 1 << 28
    #: A loop becomes a recurrence over rows from so many turns on, with sums of products from fewer: a training step
    #: of an LSTM of 8 turns takes 1.15 ms so and 1.25 written out, one of a GRU of 12 turns 1.3 ms and 1.5 as a loop.
    #: Operations that cannot be taken out of it are found by so many attempts.
    recurrence_turns: int = 16
    recurrence_products: int = 6
    recurrence_attempts: int = 8
    #: A loop becomes so many recurrences at most that do not hang on each other; what one keeps for the next, and what
    #: is computed in between, has so many bytes of all turns at most, and so many a turn: a limit of memory. A few
    #: numbers of each turn are kept in any case: 10**5 turns of a softmax, number by number, take 160 ms together.
    recurrences_most: int = 8
    between_bytes: int = 1 << 20
    between_large: int = 1 << 14
    between_numbers: int = 1 << 5
    #: A part of a state is taken in each turn, rather than of the states of all turns, if it is so many times smaller.
    #: 10**4 turns of `(c.at[i].set(x), c[j])` on 1,000 numbers, ms: 42, and 5 so.
    part_of: int = 16
    #: Loops side by side: there are regions for so many sizes at most, each so many times smaller than the one before,
    #: and when so many loops on single numbers are left, they run one after the other: an op on a single number takes
    #: 0.04 us, and one on a small array 1.5; 100 loops of Collatz take 2.0 ms with 16, 1.7 with 32. Turns with so many
    #: ops have fewer sizes: 200 loops that draw random numbers take 900 ms to plan with four.
    loops_widths: int = 4
    loops_operations: int = 256
    loops_shrink: int = 8
    loops_last: int = 32
    #: Turns of a recurrence are tried in chunks side by side from so many on, of sums of single numbers, and from fewer
    #: of what takes longer one after the other, if the states have no more than so many bytes; the turns of a chunk, at
    #: least; and how many turns are made of lists at a time. 10**4 turns of 0.9 * c + v: 2.5 ms over rows, 1.0 in 100
    #: chunks of 100. 1,000: 0.15 ms over rows, 0.4 in chunks. 1,000 of tanh(c + v) on 8 elements: 6.1 and 1.4 ms.
    chunked_turns: int = 4096
    chunk_bytes: int = 1 << 14
    chunk_turns: int = 64
    list_turns: int = 1 << 13
    #: Turns that read and write windows at known places of an array of so many elements and more are made together, by
    #: functions for so many turns, where the windows of a turn have no more elements than so many. Places are computed
    #: for so many turns at a time. A run of turns takes some 30 µs, and a turn by itself 1 to 3: turns are made one by
    #: one where so many runs have fewer turns on average than so many.
    ahead_elements: int = 64
    ahead_widths: tuple[int, ...] = (32, 256, 2048)
    ahead_window: int = 64
    ahead_page: int = 1 << 12
    ahead_turns: int = 16
    ahead_runs: int = 32
    #: Groups of up to so many elements, with so many operations on bits of ui32 at least, compute with the elements
    #: packed into one integer of Python. `random.poisson`, half of which is Threefry, takes 1.1 ms of 10 elements as
    #: arrays and 0.72 packed, of 50 0.95 and 0.78, of 100 1.28 and 1.21.
    packed_elements: int = 64
    packed_steps: int = 16
    #: Turns of a recurrence that are affine over integers are composed from so many operations of all turns
    #: on. A turn of two operations takes 0.14 us as Python. 1,000 of them take 0.2 ms in pairs, 10,000 0.4.
    composed_ops: int = 4000
    #: Those over wrapping integers have so many windows of bits at most, or so many where the factor is one of each
    #: turn, and so many turns are composed at a time. `(y * 3 + i) ^ c`, 10**4 turns, ms, with 2, 5 and 16 windows:
    #: 0.07, 0.19 and 0.34; as Python 1.3. 10**6 turns in blocks of 2**12, 2**14 and 2**16, with 2 windows 6.9, 3.4 and
    #: 2.6, with 5 windows 24, 18 and 26. 8 windows with own factors take 0.8.
    composed_windows: int = 32
    composed_own_windows: int = 8
    composed_block: int = 1 << 14
    #: A loop that can be compiled is composed until then if it has no more turns, as their rows take memory. 10**4
    #: turns of `(y * 3 + i) ^ 1`, ms: as Python 1.3, composed 0.06, compiled 0.03.
    composed_turns: int = 1 << 18
    #: The bytes of what such turns give, at most, or a part of that of all turns: it is held twice until it is put into
    #: the results. A call for more turns takes 3 µs.
    list_bytes: int = 1 << 14
    list_parts: int = 6
    #: Sums over turns of so many elements and more are added turn by turn, which takes no memory: 25 turns of 32×32
    #: f32 take 10 µs so, and 22 as a running sum.
    fold_wide: int = 1 << 8
    #: Values of so many bytes are dropped as soon as nothing needs them. An update of 200 leaves of 4.6 kB by Adam
    #: takes 3.3 MB with 2**16 and 2.7 MB with 2**12 or less, in the same time. A loop that samples tokens holds 17 kB
    #: less with 2**6, in the same time.
    drop_bytes: int = 1 << 6

    # -- programs on the JAX platform --

    #: A program that is estimated to take so many seconds runs while its caller goes on; handing it to another thread
    #: takes some 0.1 ms.
    long_seconds: float = 0.01
    #: The estimate: seconds for an op, for an element of an operand or a result, and for a product that is summed.
    op_seconds: float = 2e-6
    element_seconds: float = 1e-9
    product_seconds: float = 1e-10
    #: An element that a region or a factorization is run for takes as long as so many others, and a product of copied
    #: windows as so many of matrices.
    hard: int = 10

    # -- kernels compiled by numba --

    #: Smaller arrays are left to numpy.
    compiled_from: int = 1 << 13
    #: numba is imported (0.5 s from its cache) once so many elements would have been taken.
    compiled_worth: int = 1 << 22
    #: Groups of fewer elements are left to numpy; of fewer still if they have so many ops. A call takes 5 µs beside its
    #: elements, numpy 1 µs for each op. 8 ops on 512 elements by the machine and by numpy, µs: 8.7 and 12.0, on 8,192
    #: 15 and 22; 2 ops on 2,048 8.4 and 6.2, on 8,192 10.1 and 9.8.
    fast_from: int = 1 << 13
    fast_few: int = 1 << 9
    fast_steps: int = 4
    #: So many steps on pairs of bytes that are integers take less than a lookup: 0.05 ns each, and 0.5.
    integer_steps: int = 7
    #: Elements of a block of the compiled machine: its registers stay in the first-level cache.
    fast_elements: int = 2048
    #: The same where functions of f32 are called, so that memory takes results while the next ones are computed. 10**6
    #: elements, ms, with 2,048, 512 and 256: log(x * x + 1) + sqrt(abs(x)) 1.24, 1.00 and 0.96, silu 0.87, 0.79 and
    #: 0.80, exp 0.69, 0.69 and 0.70.
    fast_calls: int = 512
    #: Elements that the compiler's loops take at a time. Rows are taken in pieces of a multiple: a layer norm of
    #: 1000x1000 f32 takes 0.91 ms so, and 0.98 with pieces of 250; softmax 1.75 and 1.98.
    fast_line: int = 64
    #: Where rows are folded: so many rows side by side, and so many elements of each.
    fast_high: int = 8
    fast_wide: int = 512
    #: Rows of fewer elements are left to numpy. 8 ops on 2,048 rows of 4, one operand the same in all: 17 µs and 68.
    fast_short: int = 4
    #: Leaves whose rows have gaps between them are read where they are if rows have so many elements, else copied. The
    #: cell of an LSTM, four slices of 16 rows of 64: 14.4 µs with copies, 10.8 without.
    strided_columns: int = 1 << 5
    #: A group gets code of its own once the machine has done so many ops on single elements for it: it does them in
    #: 20 ms, and LLVM takes 30 to 80 for the code, which takes half of the machine's time or less. On rows of fewer
    #: elements it would do many of them one by one.
    joined_worth: int = 1 << 28
    joined_columns: int = 1 << 6
    #: An exponential takes as long as so many other ops together.
    fast_exponential: int = 8
    #: Chains over the same rows of so many elements or more are one program: softmax of 8 rows of 32 takes 10 µs so,
    #: and 48 op by op. It has so many operations at most, and so many bytes of registers, which the second-level cache
    #: is to hold.
    row_few: int = 1 << 6
    row_longest: int = 60
    #: So many chains at most are looked at together, so that planning is linear in the size of a program.
    row_chains: int = 200
    row_bytes: int = 1 << 20
    #: Parts that one thread is given, so that threads that are interrupted lose little.
    fast_parts: int = 4
    #: Groups of no more elements run on one thread: to wake another one takes 20 µs, on a busy machine 100.
    fast_alone: int = 1 << 18

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

    # -- products and random numbers --

    #: Elements of windows of a convolution laid out at a time, of codes and of decoded numbers; windows at least. 3×3,
    #: 32 channels, 4×32×32, with 2**16 and 2**20 decoded numbers: 2.9 and 4.2 ms.
    convolution_block: int = 1 << 22
    convolution_plain_block: int = 1 << 16
    #: The same of codes that tiles multiply, ms, with 2**18, 2**20 and 2**21: 1.4, 1.2 and 0.9.
    convolution_code_block: int = 1 << 21
    #: Elements that lie so many together in memory, but each in another row of the matrix, are left to numpy: the
    #: gradient of 3×3 kernels of 16 to 3 channels, 4×16×16, takes 0.19 ms by numpy and 0.28 compiled; of 1 to 16
    #: channels, 32×8×8, 0.14 and 0.08.
    convolution_apart: int = 8
    #: So are runs of few features, and many runs of more: 3×3, 3 to 16 channels, 8×32×32, takes 0.44 ms by numpy and
    #: 0.62 compiled, 16 to 3 channels 0.94 and 1.02, 16 to 32 channels, 32×4×4, 0.22 and 0.14.
    convolution_short: int = 16
    convolution_long: int = 32
    convolution_runs: int = 1 << 15
    convolution_rows: int = 256
    #: Matrices of so many rows and columns are factored by LAPACK, one by one, where there are no more than so many for
    #: each of their rows; others step by step, all at once. LU of f32, ms, step by step and so: 32×32 0.55 and
    #: 0.03, 316×316 15.8 and 0.7, 1000×1000 327 and 18; 64 of 32×32 1.75 and 0.85.
    lapack_rows: int = 16
    lapack_few: int = 4
    #: Up to so many tridiagonal systems for each of their rows are solved one by one: a call of LAPACK takes 6 µs,
    #: and a row of all systems together 27.
    tridiagonal_few: int = 4
    #: An exact product of no more terms is formed in f64 at once, where a format's numbers allow it, whatever those at
    #: hand are: 32**3 of f8E4M3FN takes 18 µs so, and 38 otherwise.
    exact_few: int = 1 << 18
    #: The norms of operands of an exact product are computed where sums have at most so many bits: 256x256x64 in f64,
    #: and so in f32, takes 0.22 and 0.13 ms. Where f64 is needed all the same, they cost 2 % of the product.
    exact_near_f32: int = 30
    #: Bytes of one part of a large exact product, and elements of an exact sum at a time.
    exact_tile_bytes: int = 1 << 25
    exact_sum_block: int = 1 << 13
    #: Counters encrypted at a time, and elements of an iota: so the steps between stay in the cache.
    random_block: int = 1 << 13
    iota_block: int = 1 << 20


DEFAULT = Tuning()
