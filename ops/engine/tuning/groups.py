"""Sizes and counts of what is fused and compiled."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class GroupTuning:
    """Of groups of operations, row programs, compiled kernels, and the platform of JAX."""

    # -- groups --

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
    #: Products of so many numbers are looked at after the first ones: where these are zero or infinite, 10**6 f32 take
    #: 0.2 ms and 1.2 step by step; if they are not, looking takes 5 µs. The others' bits are looked at in such blocks.
    settled_from: int = 1 << 12
    settled_after: int = 1 << 10
    settled_block: int = 1 << 17
    #: Rows in which one code stays the same are summed two at a time where so many have the same code, there are eight
    #: times as many in all, and so many steps. Sums of exp(x - largest) with the largest before, ms on one thread, one
    #: row at a time and so: 1000 rows of 1000 1.87 and 1.31, 512 of 2,048 1.95 and 1.33; of fewer rows 256 of 256 0.19
    #: and 0.32, of fewer steps 4,096 of 128 1.5 and 1.8.
    row_pairs_rows: int = 1 << 6
    row_pairs_steps: int = 1 << 8
    #: Fewer than eight sums of so many steps are formed by blocks (`native.ordered_sums`), once rows of so many
    #: elements would have been: LLVM takes 40 ms for the code. That saves 0.4 ns an element, and where each sum is
    #: rounded to bf16 or f16 5 and 10.
    ordered_from: int = 1 << 9
    ordered_worth: int = 1 << 25
    ordered_halves_worth: int = 1 << 22
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
    unroll_ops: int = 400
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
