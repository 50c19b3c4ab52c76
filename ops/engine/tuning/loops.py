"""Sizes and counts of what becomes of loops."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class LoopTuning:
    """Of turns side by side, recurrences, single numbers, compiled loops."""

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
    #: A loop within another copies the arrays that it writes to when it begins: of so many bytes at most. Not
    #: measured: a few µs.
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
    #: The numbers of f16 or bf16 whose function is put in where that of f32, rounded again, would be another: the
    #: logistic function of f16 has 7, and bf16 none.
    vector_exceptions: int = 8
    #: The turns over which a row that was written is handed on, each by a state. Not measured: a limit of states.
    forward_turns: int = 4
    #: The most turns of a loop that run side by side, and the most bytes of what they keep between operations that are
    #: not elementwise: an eighth of the memory of a small machine.
    turns_most: int = 1 << 24
    turns_bytes: int = 1 << 28
    #: The most bytes of what is computed for all turns of a loop because other loops in it take it row by row. Not
    #: measured: a limit of memory.
    rows_bytes: int = 1 << 30
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
