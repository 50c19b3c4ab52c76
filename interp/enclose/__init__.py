"""Enclosures: for every value of a program, all results that an implementation may give.

An implementation may add in any order and grouping, contract a product and a sum to one rounding, keep intermediate
values wider than their type, compute functions within some ULP, and take subnormal numbers as zero; `Allowed` says
which of these count. An enclosure is an interval of real numbers for each element, with a mark where the element may be
NaN. It is sound: it holds every result of such an implementation. It is as narrow as plain rules make it.

The rules. An operation on real intervals gives an interval of real numbers, computed in f64 and rounded outward, and
joined with the same interval rounded to the operation's type: so a value that is kept wider, or whose rounding is left
out, is enclosed. Rounding to nearest is monotone, so that rounding both ends of an interval gives the interval of all
rounded values (IEEE 754-2019, section 4.3). A sum of k terms in any order is within ((1 + u)**k - 1) * sum(abs(x)) of
the exact sum, with u the unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section
4.2). Conversions, and the results of the program, are roundings that happen: an exact operand has one result.

Where a comparison, a sort or a conversion to an integer is not decided by the enclosures, all outcomes are enclosed.
Where that cannot be said in intervals, elements are undecided, and the operation since which they are is known.
"""

from .allowed import Allowed
from .evaluate import enclose
from .values import Enclosure

__all__ = ["Allowed", "Enclosure", "enclose"]
