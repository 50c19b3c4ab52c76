"""einsum and unary_einsum: sums of products by labelled dimensions, as one dot_general."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..op import BY_POLICY, Call, OpError, Run, kernel_of, op
from ..require import identity, require, require_shape, storage
from ..types import TensorType

Labels = tuple[str, ...]
Shape = tuple[int | None, ...]

_NUMBERS = "bool integer float complex"
_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


@op("einsum", _NUMBERS, values="numbers", accuracy=BY_POLICY, operands=2, has_section=False)
def einsum(call: Call) -> Run:
    """The products of elements whose labels agree, summed over the labels that the output lacks: `ab,bc->ac`.

    A label that one operand repeats takes its diagonal; `...` stands for all dimensions that have no label.
    """
    (lhs, rhs), output = dimensions_of(call)
    return _contraction(call, [call.tensor(0), call.tensor(1)], (lhs, rhs), output)


@op("unary_einsum", _NUMBERS, values="numbers", accuracy=BY_POLICY, operands=1, has_section=False)
def unary_einsum(call: Call) -> Run:
    """The elements summed over the labels that the output lacks, the others in its order: `abc->ca`."""
    t = call.tensor()
    (labels,), output = dimensions_of(call)
    scalar = TensorType((), t.element)
    kernel, one = _contraction(call, [scalar, t], ((), labels), output), np.ones((), t.element.dtype)
    return lambda x: kernel(one, x)


def dimensions_of(call: Call) -> tuple[list[Labels], Labels]:
    """The labels of the operands and of the output of a use. Raises OpError where they do not fit the tensors."""
    config, tensors = str(call.attribute("einsum_config")), [call.tensor(i) for i in range(len(call.operands))]
    inputs, arrow, output = config.replace(" ", "").partition("->")
    terms = inputs.split(",")
    quoted = f"einsum_config {config!r}"
    fits = arrow and len(terms) == len(tensors)
    require(fits, f"{quoted} is not of the form {'ab,bc->ac' if len(tensors) == 2 else 'ab->a'}")
    labels = [labels_of(quoted, term, len(t.shape)) for term, t in zip(terms, tensors, strict=True)]
    unnamed = max((sum(not n.isalpha() for n in term) for term in labels), default=0)
    out = labels_of(quoted, output, len(output.replace("...", "")) + unnamed * ("..." in output))
    sizes: dict[str, int | None] = {}
    for names, t in zip(labels, tensors, strict=True):
        for name, n in zip(names, t.shape, strict=True):
            known = sizes.setdefault(name, n)
            require(known == n or None in (known, n), f"{quoted} gives dimensions of sizes {known} and {n} one label")
            sizes[name] = known if n is None else n
    is_valid = len(set(out)) == len(out) and set(out) <= set(sizes)
    require(is_valid, f"{quoted} has an output that repeats a label, or has one that no operand has")
    require_shape(call, tuple(sizes[name] for name in out))
    return labels, out


def labels_of(quoted: str, term: str, rank: int) -> Labels:
    """The label of each dimension; those that `...` stands for are numbered from the last.

    Raises OpError where it is not of letters and one `...`.
    """
    match = _TERM.fullmatch(term)
    if match is None:
        raise OpError(f"{quoted} has a term {term!r} (expected letters, and '...' once)")
    before, dots, after = match.groups()
    unnamed = rank - len(before) - len(after)
    require(unnamed == 0 or (unnamed > 0 and dots), f"{quoted} has a term {term!r} for a tensor of rank {rank}")
    return (*before, *(str(i) for i in reversed(range(unnamed))), *after)


def _contraction(call: Call, tensors: list[TensorType], labels: tuple[Labels, Labels], output: Labels) -> Run:
    """One dot_general. A label of one operand only that is summed over is given to the other too, which is repeated."""
    once = [tuple(dict.fromkeys(names)) for names in labels]
    shapes = [dict(zip(names, t.shape, strict=True)) for names, t in zip(labels, tensors, strict=True)]
    lone = [[n for n in mine if n not in theirs and n not in output] for mine, theirs in (once, once[::-1])]
    lhs, rhs = (*once[0], *lone[1]), (*once[1], *lone[0])
    batch = [n for n in lhs if n in rhs and n in output]
    summed = [n for n in lhs if n in rhs and n not in output]
    dimensions = (*batch, *(n for n in lhs if n not in rhs), *(n for n in rhs if n not in lhs))
    sizes = shapes[1] | shapes[0]
    types = [
        TensorType(tuple(sizes[n] for n in names), t.element) for names, t in zip((lhs, rhs), tensors, strict=True)
    ]
    numbers = {
        "lhs_batching_dimensions": _places(batch, lhs),
        "rhs_batching_dimensions": _places(batch, rhs),
        "lhs_contracting_dimensions": _places(summed, lhs),
        "rhs_contracting_dimensions": _places(summed, rhs),
    }
    attributes = {k: v for k, v in call.attributes.items() if k == "precision_config"}
    result = TensorType(tuple(sizes[n] for n in dimensions), call.result().element)
    dot = kernel_of(call.like("dot_general", types, (result,), dot_dimension_numbers=numbers, **attributes))
    diagonals = [_diagonal(t, names) for t, names in zip(tensors, labels, strict=True)]
    order = _places(output, dimensions)

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = diagonals[0](x), diagonals[1](y)
        repeated_x = _repeat(x, [y.shape[once[1].index(n)] for n in lone[1]])
        repeated_y = _repeat(y, [x.shape[once[0].index(n)] for n in lone[0]])
        return dot(repeated_x, repeated_y).transpose(order)

    return kernel


def _places(names: Sequence[str], among: Labels) -> tuple[int, ...]:
    return tuple(among.index(n) for n in names)


def _repeat(x: np.ndarray, sizes: list[int]) -> np.ndarray:
    """The same for each index of further dimensions at the end."""
    if not sizes:
        return x
    return np.broadcast_to(x.reshape(*x.shape, *(1 for _ in sizes)), (*x.shape, *sizes))


def _diagonal(t: TensorType, names: Labels) -> Run:
    """A function that takes the elements whose indices agree where labels do."""
    once = list(dict.fromkeys(names))
    if len(once) == len(names):
        return identity
    places, moved = [once.index(n) for n in names], storage(t.element)
    return lambda x: np.einsum(x.view(moved), places, list(range(len(once)))).view(t.element.dtype)
