"""Sizes and counts of products."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ProductTuning:
    """Of sums of products, convolutions, linear algebra, and random numbers."""

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
    #: Of one output feature, so many sums for each place of the window, and more, of up to so many places are formed
    #: place by place, in such blocks. ms by a matrix and so, 3×3 of f32: 64×64 0.22 and 0.17, 1000×1000 19 and 4.4; 101
    #: of f32: 4,096 0.27 and 0.35, 10^5 4.8 and 2.9.
    taps_from: int = 1 << 8
    taps_most: int = 1 << 8
    taps_block: int = 1 << 14
    #: Up to so many tridiagonal systems for each of their rows are solved one by one: a call of LAPACK takes 6 µs,
    #: and a row of all systems together 27.
    tridiagonal_few: int = 4
    #: An exact product of no more terms is formed in f64 at once, where a format's numbers allow it, whatever those at
    #: hand are: 32×64×192 of f8E4M3FN takes 44 µs so, and 92 otherwise; 64×256×64 87 and 68, but 100 and 121 where no
    #: unit of the processor for integers is in use, and 256×64×256 250 and 301.
    exact_few: int = 1 << 19
    exact_few_plain: int = 1 << 22
    #: The norms of operands of an exact product are computed where sums have at most so many bits: 256x256x64 in f64,
    #: and so in f32, takes 0.22 and 0.13 ms. Where f64 is needed all the same, they cost 2 % of the product.
    exact_near_f32: int = 30
    #: Bytes of one part of a large exact product, and elements of an exact sum at a time.
    exact_tile_bytes: int = 1 << 25
    exact_sum_block: int = 1 << 13
    #: Counters encrypted at a time, and elements of an iota: so the steps between stay in the cache.
    random_block: int = 1 << 13
    iota_block: int = 1 << 20
