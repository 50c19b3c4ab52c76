"""Lays the windows of a tensor out as the rows, or the columns, of a matrix: numba compiles `lay_patches` as it stands.

The elements of the matrix are numbered by a place and an offset within it, each of which runs over three dimensions,
the last of which varies first. What lies outside of the tensor, or between elements that are apart, is zero.
"""

from __future__ import annotations

import numpy as np

#: Of an index that is not signed the compiler knows that it does not count from the end.
_at = np.uintp


def lay_patches(source, out, dims, space, base, first, last):
    """Put elements `first[0]` to `last[0]` of the first three dimensions and `first[1]` to `last[1]` of the others.

    `source` and `out` are unsigned integers one behind the other. Each of the six rows of `dims` is a dimension: its
    size, the step in `source`, and the steps along the two axes that windows slide along. Each row of `space` is such
    an axis: its size, the step in `source`, how far apart its elements are laid, and the position of the first element
    of all. The last dimension steps along neither axis, or from each element of the last axis to the next, where these
    are not apart. `base` is the step in `source` from a group to the next, and how many groups there are.
    """
    rows, stride_h, gap_h = space[0, 0], space[0, 1], space[0, 2]
    columns, stride_w, gap_w = space[1, 0], space[1, 1], space[1, 2]
    size1, size2, size4, size5 = dims[1, 0], dims[2, 0], dims[4, 0], dims[5, 0]
    step3, down3, along3 = dims[3, 1], dims[3, 2], dims[3, 3]
    step4, down4, along4 = dims[4, 1], dims[4, 2], dims[4, 3]
    step, along = dims[5, 1], dims[5, 3]
    moves = along * stride_w + step  # in `source`, from an element of a run to the next
    is_near = gap_h == 1 and gap_w == 1
    is_still = along == 0
    zero = source.dtype.type(0)
    start0, start1, start2 = first[1] // (size4 * size5), first[1] // size5 % size4, first[1] % size5
    at = 0
    for group in range(base[1]):
        i0, i1, i2 = first[0] // (size1 * size2), first[0] // size2 % size1, first[0] % size2
        for _ in range(first[0], last[0]):
            begin = base[0] * group + i0 * dims[0, 1] + i1 * dims[1, 1] + i2 * dims[2, 1]
            begin_h = space[0, 3] + i0 * dims[0, 2] + i1 * dims[1, 2] + i2 * dims[2, 2]
            begin_w = space[1, 3] + i0 * dims[0, 3] + i1 * dims[1, 3] + i2 * dims[2, 3]
            j0, j1, j2 = start0, start1, start2
            left = last[1] - first[1]
            while left > 0:
                count = min(size5 - j2, left)
                place = begin + j0 * step3 + j1 * step4 + j2 * step
                h = begin_h + j0 * down3 + j1 * down4
                w = begin_w + j0 * along3 + j1 * along4 + j2 * along
                low, high, by = 0, 0, moves
                if is_still:
                    inside = h >= 0 and w >= 0
                    if not is_near:
                        inside = inside and h % gap_h == 0 and w % gap_w == 0
                        h //= gap_h
                        w //= gap_w
                    if inside and h < rows and w < columns:
                        high, by = count, step
                        place += h * stride_h + w * stride_w
                else:
                    inside = h >= 0
                    if gap_h > 1:
                        inside = inside and h % gap_h == 0
                        h //= gap_h
                    if inside and h < rows:
                        low = min(max(-w, 0), count)
                        high = min(max(columns - w, low), count)
                        place += h * stride_h + w * stride_w
                for k in range(low):
                    out[_at(at + k)] = zero
                if by == 1:
                    for k in range(low, high):
                        out[_at(at + k)] = source[_at(place + k)]
                else:
                    for k in range(low, high):
                        out[_at(at + k)] = source[_at(place + k * by)]
                for k in range(high, count):
                    out[_at(at + k)] = zero
                at += count
                left -= count
                j2 = 0
                j1 += 1
                if j1 == size4:
                    j1 = 0
                    j0 += 1
            i2 += 1
            if i2 == size2:
                i2 = 0
                i1 += 1
                if i1 == size1:
                    i1 = 0
                    i0 += 1
