"""Sums of products of matrices by the steps of an accumulator, compiled by numba.

The results are the same, bit for bit, as those of `..sums`, which computes with arrays. Here a row at a time is
computed: the sums of one row of the left matrix with all columns of the right one. `sums.py` imports this module only
where numba is in use; `served.py` says for which records.
"""

from __future__ import annotations

import collections

import numpy as np

from ...engine.fast.instructions import choose, inner, numba
from .numbers import (
    ABSENT,
    cut,
    cut_floor,
    cut_nearest,
    cut_sticky,
    cut_zero,
    error,
    exact_sum,
    exponent,
    is_finite,
    keep,
    limited,
    plus,
    power,
    to_odd,
    unlimited,
)  # fmt: skip
from .served import AFTER, ALIGNED, EXACT, EXACT_AFTER, JOINED, TREE, Facts

_i16, _i64 = np.int16, np.int64

#: The values and exponents of the left operand, [k, batch or 1, rows], and of the right one, [k, batch or 1, columns];
#: the k of all steps in their order; products that are not below `limit` are infinite.
_Products = collections.namedtuple("_Products", "x xe y ye order limit")
#: Which row of the left operand, of which batch of each; and the part of the order that is a step.
_Place = collections.namedtuple("_Place", "b c i first last")
#: Rows to work in: what products were aligned to, their scales, a sum of products, terms of a tree or of an exact sum.
_Rows = collections.namedtuple("_Rows", "top scale part total terms")


# -- sums of products that are aligned --


def _adder(cut, bound):
    """A function that adds the products of a step to a row, each scaled and cut."""

    @inner
    def add(total, scale, products, at):
        x, y, order, limit = products.x, products.y, products.order, products.limit
        b, c, i, k = at.b, at.c, at.i, at.first
        while k + 4 <= at.last:
            k0, k1, k2, k3 = order[k], order[k + 1], order[k + 2], order[k + 3]
            x0, x1, x2, x3 = x[k0, b, i], x[k1, b, i], x[k2, b, i], x[k3, b, i]
            y0, y1, y2, y3 = y[k0, c], y[k1, c], y[k2, c], y[k3, c]
            for j in range(total.size):
                s = scale[j]
                t = total[j] + cut(bound(x0 * y0[j], limit) * s)
                t += cut(bound(x1 * y1[j], limit) * s)
                t += cut(bound(x2 * y2[j], limit) * s)
                total[j] = t + cut(bound(x3 * y3[j], limit) * s)
            k += 4
        while k < at.last:
            x0, y0 = x[order[k], b, i], y[order[k], c]
            for j in range(total.size):
                total[j] += cut(bound(x0 * y0[j], limit) * scale[j])
            k += 1

    return add


_add_zero, _add_zero_limited = _adder(cut_zero, unlimited), _adder(cut_zero, limited)
_add_floor, _add_sticky = _adder(cut_floor, limited), _adder(cut_sticky, limited)
_add_nearest = _adder(cut_nearest, limited)


@inner
def _add_inner(total, scale, part, products, at, facts):
    """The same for terms that are themselves sums of several products, which are scaled together."""
    x, y, order, limit = products.x, products.y, products.order, products.limit
    for group in range(at.first, at.last, facts.inner):
        for j in range(total.size):
            part[j] = limited(x[order[group], at.b, at.i] * y[order[group], at.c, j], limit)
        for k in range(group + 1, min(group + facts.inner, at.last)):
            left, right = x[order[k], at.b, at.i], y[order[k], at.c]
            for j in range(total.size):
                part[j] += limited(left * right[j], limit)
        for j in range(total.size):
            total[j] += cut(part[j] * scale[j], facts.drop)


@inner
def _add(total, scale, part, products, at, facts):
    if facts.inner > 1:
        _add_inner(total, scale, part, products, at, facts)
    elif facts.drop == 1:
        _add_floor(total, scale, products, at)
    elif facts.drop == 2:
        _add_sticky(total, scale, products, at)
    elif facts.drop == 3:
        _add_nearest(total, scale, products, at)
    elif facts.limited:
        _add_zero_limited(total, scale, products, at)
    else:
        _add_zero(total, scale, products, at)


@inner
def _normal_exponents(top, products, at):
    """The largest exponent of each sum's products, their significands normalised."""
    x, y, order, limit = products.x, products.y, products.order, products.limit
    for k in range(at.first, at.last):
        left, right = x[order[k], at.b, at.i], y[order[k], at.c]
        for j in range(top.size):
            p = limited(left * right[j], limit)
            e = choose((p == 0.0) | (not is_finite(p)), _i64(ABSENT), exponent(p))
            top[j] = max(top[j], _i16(e))


@inner
def _exponents(top, products, at):
    """The largest exponent of each sum's products, where a product has the sum of its operands' exponents."""
    xe, ye, order = products.xe, products.ye, products.order
    b, c, i, k = at.b, at.c, at.i, at.first
    while k + 4 <= at.last:
        k0, k1, k2, k3 = order[k], order[k + 1], order[k + 2], order[k + 3]
        x0, x1, x2, x3 = xe[k0, b, i], xe[k1, b, i], xe[k2, b, i], xe[k3, b, i]
        y0, y1, y2, y3 = ye[k0, c], ye[k1, c], ye[k2, c], ye[k3, c]
        for j in range(top.size):
            low = max(_i16(x0 + y0[j]), _i16(x1 + y1[j]))
            high = max(_i16(x2 + y2[j]), _i16(x3 + y3[j]))
            top[j] = max(top[j], max(low, high))
        k += 4
    while k < at.last:
        x0, y0 = xe[order[k], b, i], ye[order[k], c]
        for j in range(top.size):
            top[j] = max(top[j], _i16(x0 + y0[j]))
        k += 1


@inner
def _largest(top, products, at, facts):
    """The exponent that the products of a step are aligned to: the largest, but at least `least`."""
    for j in range(top.size):
        top[j] = _i16(facts.least)
    if facts.normalise:
        _normal_exponents(top, products, at)
    else:
        _exponents(top, products, at)


@inner
def _aligned(running, out, rows, products, at, facts):
    """The sum of a step with the running sum as one of its terms, not yet rounded."""
    top, scale, total = rows.top, rows.scale, rows.total
    _largest(top, products, at, facts)
    for j in range(out.size):
        r = running[j]
        own = choose((r == 0.0) | (not is_finite(r)), _i64(ABSENT), max(exponent(r), facts.low))
        e = min(max(_i64(top[j]), own), facts.most)
        top[j] = _i16(e)
        scale[j] = power(facts.bits - e)
    for j in range(out.size):
        total[j] = cut(running[j] * scale[j], facts.drop) + 0.0
    _add(total, scale, rows.part, products, at, facts)
    for j in range(out.size):
        out[j] = total[j] * power(_i64(top[j]) - facts.bits)


@inner
def _separate(out, rows, products, at, facts):
    """The sum of a part of a step without the running sum; `rows.top` becomes the exponent of its alignment."""
    top, scale = rows.top, rows.scale
    _largest(top, products, at, facts)
    for j in range(out.size):
        top[j] = min(top[j], _i16(facts.most))
        scale[j] = power(facts.bits - _i64(top[j]))
        out[j] = 0.0
    _add(out, scale, rows.part, products, at, facts)
    for j in range(out.size):
        out[j] *= power(_i64(top[j]) - facts.bits)


@inner
def _even_and_odd(out, even_top, rows, products, at, middle, facts):
    """The sum of a step whose products of even and of odd position are summed separately, and then added."""
    odd, top = rows.total, rows.top
    _separate(out, rows, products, _Place(at.b, at.c, at.i, at.first, middle), facts)
    even_top[:] = top
    _separate(odd, rows, products, _Place(at.b, at.c, at.i, middle, at.last), facts)
    for j in range(out.size):
        top[j] = max(top[j], even_top[j])
        s = power(facts.bits - _i64(top[j]))
        both = cut(out[j] * s, facts.join) + cut(odd[j] * s, facts.join)
        out[j] = both * power(_i64(top[j]) - facts.bits)


@inner
def _join(running, part, top, facts):
    """Add the sum of a step to the running sum, both cut to bits below the larger exponent; not yet rounded."""
    for j in range(running.size):
        r = running[j]
        own = max(choose(is_finite(r), exponent(r), _i64(ABSENT)), facts.low)
        e = min(max(max(_i64(top[j]), own), facts.least), facts.most)
        r = choose((own < e - facts.c_reach) & is_finite(r), 0.0, r)
        r = cut(r * power(facts.c_bits - e), facts.join) * power(e - facts.c_bits)
        running[j] = cut(part[j] * power(facts.sum_bits - e), facts.join) * power(e - facts.sum_bits) + r + 0.0


# -- sums that nothing is aligned for --


@inner
def _fused(running, products, at):
    """The running sum plus one product, rounded to odd."""
    k = products.order[at.first]
    left, right = products.x[k, at.b, at.i], products.y[k, at.c]
    for j in range(running.size):
        p = limited(left * right[j], products.limit)
        total = running[j] + p
        running[j] = to_odd(total, error(running[j], p, total)) + 0.0


@inner
def _exact(running, rows, products, at):
    """The running sum plus the exact sum of a step, rounded to odd. Few such sums have more bits than f64."""
    x, y, order, limit = products.x, products.y, products.order, products.limit
    total, wrong = rows.total, rows.part
    for j in range(running.size):
        total[j] = running[j] + 0.0
        wrong[j] = 0.0
    for k in range(at.first, at.last):
        left, right = x[order[k], at.b, at.i], y[order[k], at.c]
        for j in range(running.size):
            p = limited(left * right[j], limit)
            t = total[j] + p
            wrong[j] += abs(error(total[j], p, t))
            total[j] = t
    terms, expansion = rows.terms[0, : at.last - at.first + 1], rows.terms[1]
    for j in range(running.size):
        if wrong[j] != 0.0 and is_finite(total[j]):
            terms[0] = running[j]
            for k in range(at.first, at.last):
                terms[1 + k - at.first] = limited(x[order[k], at.b, at.i] * y[order[k], at.c, j], limit)
            total[j] = exact_sum(terms, expansion) + 0.0
    running[:] = total


@inner
def _tree(terms, products, at, pairs, facts, cut, form):
    """The sum of a step by halves in the first of `terms`, every sum rounded; `pairs` are added to each other."""
    x, y, order = products.x, products.y, products.order
    for n in range(facts.width):
        row = terms[n]
        if at.first + n < at.last:
            left, right = x[order[at.first + n], at.b, at.i], y[order[at.first + n], at.c]
            for j in range(row.size):
                row[j] = limited(left * right[j], products.limit) + 0.0
            keep(row, cut, form, facts.rounding)
        else:
            row[:] = 0.0
    for n in range(pairs.shape[0]):
        row = terms[pairs[n, 0]]
        plus(row, terms[pairs[n, 1]], facts.needs_odd)
        keep(row, cut, form, facts.rounding)


# -- all steps --


def run(x, xe, y, ye, running, order, bounds, middles, groups, pairs, facts, forms, cuts, limit):
    """The running sums [batch, rows, columns] after all steps, in place.

    The operands are as in `_Products`. Step s takes the k of `order` from `bounds[s]` to `bounds[s + 1]`, of which
    those from `middles[s]` on are odd; group g takes the steps from `groups[g]` to `groups[g + 1]`. Of `forms` and
    `cuts` the first is the form that is kept, the second the type in which running sums are added.
    """
    columns, place, rounding, steps = running.shape[2], facts.place, facts.rounding, groups.size - 1
    products, form, cut = _Products(x, xe, y, ye, order, limit), forms[0], cuts[0]
    room, tops = np.empty((4, columns)), np.empty((2, columns), np.int16)
    is_exact, group_sum, even_top = place in (EXACT, EXACT_AFTER), room[3], tops[1]
    terms = np.empty((2, bounds[-1] + 2) if is_exact else (facts.width, columns))
    rows = _Rows(tops[0], room[0], room[1], room[2], terms)
    for g in range(steps):
        for b in range(running.shape[0]):
            u, v = min(b, x.shape[1] - 1), min(b, y.shape[1] - 1)
            for i in range(running.shape[1]):
                sums = running[b, i]
                out = sums if place in (ALIGNED, JOINED, EXACT) else terms[0] if place == TREE else group_sum
                if place == EXACT_AFTER:
                    out[:] = 0.0
                for s in range(groups[g], groups[g + 1]):
                    at = _Place(u, v, i, bounds[s], bounds[s + 1])
                    if place == TREE:
                        _tree(terms, products, at, pairs, facts, cut, form)
                        continue
                    if place == ALIGNED or (place == AFTER and s > groups[g]):
                        _aligned(out, out, rows, products, at, facts)
                    elif is_exact and at.last - at.first == 1:
                        _fused(out, products, at)
                    elif is_exact:
                        _exact(out, rows, products, at)
                    else:
                        part = group_sum
                        if facts.even_odd:
                            _even_and_odd(part, even_top, rows, products, at, middles[s], facts)
                        else:
                            _separate(part, rows, products, at, facts)
                        if place == JOINED:
                            _join(sums, part, rows.top, facts)
                    keep(out, cut, form, rounding)
                if place in (AFTER, TREE, EXACT_AFTER):
                    plus(sums, out, False)
                    keep(sums, cuts[1], forms[1], 1)


def signature():
    """The types of `run`."""
    types = numba.types

    def array(kind, dimensions, is_read=True):
        return types.Array(kind, dimensions, "C", readonly=is_read)

    side, whole = (array(types.float64, 3), array(types.int16, 3)), array(types.int64, 1)
    return types.void(
        *side, *side, array(types.float64, 3, False), whole, whole, whole, whole, array(types.int64, 2),
        types.NamedUniTuple(types.int64, len(Facts._fields), Facts), array(types.float64, 2), whole, types.float64,
    )  # fmt: skip
