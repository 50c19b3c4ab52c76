"""Makes of the region of a turn what it does with small vectors, where compiled code can do all of it.

Elementwise ops are taken where the compiled machine knows them (`fast/programs.py`), so that what they mean is said
there alone. What only moves elements is asked, by its kernel, where positions go. Reductions and sums of a few products
become elementwise ops in the order that they promise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.engine.fast import programs
from ....ops.engine.fast.opcodes import FUNCTIONS
from ....ops.engine.fast.recipes import Program, Recipe, Step
from ....ops.engine.fast.registers import LOADS
from ....ops.engine.fast.turns.record import (
    Compute,
    Instruction,
    Literal,
    Move,
    Multiply,
    Read,
    Start,
    Taken,
    Turn,
    Vector,
    Write,
)
from ....ops.engine.gemm import ALONE
from ....ops.engine.speed import tuning
from ....ops.op import Call, Op, OpError, lookup
from ....ops.policy import Policy
from ....ops.reductions.body_folds import is_associative
from ....ops.reductions.folds import PAIRS_FROM
from ....ops.traits import Kernel
from ....ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from ...program import BARRIER, Operation, Region, Value
from ..group import Attributes
from ..leaf import Shape
from ..passes.fusible import elements_of
from ..passes.loops import KernelOf
from ..selection import is_selection
from .halves import shown
from .lies import Lies, lies_of
from .windows import is_in_order, runs

#: What a sum of products is made of.
_PRODUCT = "stablehlo.multiply", "stablehlo.add"
_CONVERT, _COMPARE, _SELECT, _AND = (f"stablehlo.{name}" for name in ("convert", "compare", "select", "and"))
_EQUAL, _HALVES = Attributes({"comparison_direction": "EQ", "compare_type": "FLOAT"}), ("f16", "bf16")
_PLACES, _F32, _BOOL = (ELEMENT_TYPES[name] for name in ("i64", "f32", "i1"))


class Unfit(Exception):
    """Compiled code cannot do something."""


@dataclasses.dataclass(frozen=True, eq=False)
class Vectors:
    """A turn, and the values that it shares with all others."""

    turn: Turn
    shared: tuple[Value, ...]
    whole: frozenset[tuple[str, int]]  #: the kinds and places of what BLAS is given as it is


def vectors_of(
    region: Region, states: int, constants: Mapping[Value, Any], policy: Policy, kernel_of: KernelOf
) -> Vectors | None:
    """What a turn does, whose region takes so many states and then rows; None where compiled code cannot do it."""
    otherwise = frozenset[int]()
    for _ in range(states + 1):
        builder = _Builder(constants, policy, kernel_of, otherwise)
        try:
            found = builder.turn(region, states)
        except Unfit:
            return None
        lies = builder.lies_otherwise(found.turn.states)
        if lies <= otherwise or not any(p.terms > ALONE for p in found.turn.products):
            return found
        otherwise |= lies  # from the second turn on
    return None


class _Builder:
    def __init__(
        self, constants: Mapping[Value, Any], policy: Policy, kernel_of: KernelOf, otherwise: frozenset[int]
    ) -> None:
        self._constants, self._policy, self._kernel_of = constants, policy, kernel_of
        self._otherwise = otherwise  #: the states that may lie in another way than whole
        self._instructions: list[Instruction] = []
        self._vectors: list[Vector] = []
        self._shapes: list[Shape] = []
        self._numbers: dict[Value, int] = {}
        self._shared: dict[Value, int] = {}
        self._made: dict[Any, int] = {}  # values by their instruction, so that each is computed once
        self._programs: dict[Any, Program | None] = {}
        self._lies: list[Lies] = []

    def turn(self, region: Region, states: int) -> Vectors:
        """The turn of a region."""
        for kind, values in (("state", region.arguments[:states]), ("row", region.arguments[states:])):
            for i, value in enumerate(values):
                lies = Lies.UNKNOWN if kind == "state" and i in self._otherwise else Lies.WHOLE
                self._numbers[value] = self._put(Taken(kind, i), *self._type(value), lies)
        for operation in region.operations:
            self._take(operation)
        returns = [self._of(v) for v in region.returns]
        turn = Turn(tuple(self._instructions), tuple(self._vectors), tuple(returns[:states]), tuple(returns[states:]))
        sources = [
            self._instructions[self._source(v)]
            for i in self._instructions
            if isinstance(i, Multiply) and i.product.terms > ALONE
            for v in i.operands
        ]
        whole = frozenset([(s.kind, s.place) for s in sources if isinstance(s, Taken)])
        return Vectors(turn, tuple(self._shared), whole)

    def lies_otherwise(self, values: Sequence[int]) -> frozenset[int]:
        """Which of some values do not lie whole."""
        return frozenset([i for i, n in enumerate(values) if self._lies[n] is not Lies.WHOLE])

    # -- values --------------------------------------------------------------------------------------------------------

    def _type(self, value: Value) -> tuple[ElementType, Shape]:
        t = value.type
        if not isinstance(t, TensorType) or not t.is_static or t.element.name not in LOADS:
            raise Unfit
        return t.element, t.shape  # type: ignore[return-value]

    def _put(self, instruction: Instruction, element: ElementType, shape: Shape, lies: Lies | None = None) -> int:
        """The number of what an instruction gives."""
        size = math.prod(shape)
        is_shared = isinstance(instruction, Taken) and instruction.kind == "shared"
        if not 0 < size <= (tuning().vector_shared if is_shared else tuning().vector_long):
            raise Unfit
        lies = lies or Lies.WHOLE
        key = instruction, element, shape, lies
        try:
            if key in self._made:
                return self._made[key]
            self._made[key] = len(self._instructions)
        except TypeError:  # of a program of the machine
            pass
        if len(self._instructions) >= tuning().vector_steps:
            raise Unfit
        self._instructions.append(instruction)
        self._vectors.append(Vector(element, size))
        self._shapes.append(shape)
        self._lies.append(lies)
        return len(self._instructions) - 1

    def _of(self, value: Value) -> int:
        """The number of a value."""
        if value not in self._numbers:
            element, shape = self._type(value)
            if value in self._constants and math.prod(shape) <= tuning().vector_elements:
                self._numbers[value] = self._literal(np.asarray(self._constants[value]), element, shape)
            else:
                place = self._shared.setdefault(value, len(self._shared))
                self._numbers[value] = self._put(Taken("shared", place), element, shape)
        return self._numbers[value]

    def _literal(self, array: np.ndarray, element: ElementType, shape: Shape) -> int:
        words = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}").tolist()
        return self._put(Literal(tuple(words)), element, shape)

    def _lanes(self, value: int, places: Sequence[int]) -> int:
        """Some elements of a value."""
        count = self._vectors[value].count
        if [*places] == [*range(count)]:
            return value
        return self._put(Move((value,), tuple(places)), self._vectors[value].element, (len(places),))

    def _spread(self, value: int, count: int) -> int:
        """A value with as many elements, a number for all of them."""
        own = self._vectors[value].count
        return value if own == count else self._lanes(value, [0] * count)

    # -- operations ----------------------------------------------------------------------------------------------------

    def _take(self, operation: Operation) -> None:
        if operation.results and operation.results[0] in self._constants and not operation.regions:
            return
        for result, made in zip(operation.results, self._results(operation), strict=True):
            self._numbers[result] = made

    def _results(self, operation: Operation) -> Sequence[int]:
        if operation.name == BARRIER:
            return [self._of(v) for v in operation.operands]
        record = lookup(operation.name)
        if record is None or not operation.results:
            raise Unfit
        traits = record.traits
        if record.is_elementwise and len(operation.results) == 1:
            return [self._elementwise(operation, [self._of(v) for v in operation.operands])]
        if traits.moves:
            return [self._moved(operation, record)]
        if traits.starts is not None:
            return [self._window(operation, traits.starts)]
        if operation.name == "stablehlo.reduce":
            return self._reduced(operation)
        if operation.name == "stablehlo.scatter":
            return [self._scattered(operation)]
        if traits.terms is not None:
            return [self._product(operation)]
        raise Unfit

    def _elementwise(self, operation: Operation, operands: Sequence[int], count: int | None = None) -> int:
        """An elementwise op; of a body of single numbers on so many at a time."""
        element, shape = self._type(operation.results[0])
        elements = (*(self._vectors[v].element for v in operands), element)
        attributes = Attributes(operation.attributes)
        if count is not None:
            shape = (count,)
        return self._computed(operation.name, attributes, operands, elements, shape)

    def _computed(
        self,
        name: str,
        attributes: Attributes,
        operands: Sequence[int],
        elements: tuple[ElementType, ...],
        shape: Shape,
    ) -> int:
        key = name, attributes, elements
        if key not in self._programs:
            self._programs[key] = self._program(*key)
        made = self._programs[key]
        if made is None:
            return self._through_f32(name, attributes, operands, elements, shape)
        count = math.prod(shape)
        spread = [self._spread(v, count) for v in operands]
        is_known = all(self._lies[v] is not Lies.UNKNOWN for v in spread)
        return self._put(Compute(tuple(spread), made), elements[-1], shape, None if is_known else Lies.UNKNOWN)

    def _through_f32(
        self,
        name: str,
        attributes: Attributes,
        operands: Sequence[int],
        elements: tuple[ElementType, ...],
        shape: Shape,
    ) -> int:
        """A function of one number of f16 or bf16 as that of f32, rounded again; the few that show it are put in."""
        element = elements[-1]
        if elements != (element, element) or element.name not in _HALVES or self._policy != Policy():
            raise Unfit
        own, of_f32 = (self._kernel(name, attributes, (TensorType((1 << 16,), e),) * 2) for e in (element, _F32))
        found = shown(own, of_f32, element) if of_f32.traits.compiled in FUNCTIONS else None
        if found is None:
            raise Unfit
        (x,), count = operands, math.prod(shape)
        wide = self._computed(name, attributes, [self._converted(x, element, _F32, shape)], (_F32, _F32), shape)
        result = self._converted(wide, _F32, element, shape)
        for number, exact in found:
            one, instead = (self._spread(self._literal(v, element, ()), count) for v in (number, exact))
            is_one = self._computed(_COMPARE, _EQUAL, [x, one], (element, element, _BOOL), shape)
            chosen = _BOOL, element, element, element
            result = self._computed(_SELECT, Attributes({}), [is_one, instead, result], chosen, shape)
        return result

    def _program(self, name: str, attributes: Attributes, elements: tuple[ElementType, ...]) -> Program | None:
        """What the machine does for an elementwise op; None where it cannot, or bits of a NaN would be seen."""
        traits = self._kernel(name, attributes, tuple([TensorType((), e) for e in elements])).traits
        if traits.keeps_bits:
            return None
        names = [f"v{i}" for i in range(len(elements) - 1)]
        step = Step(name, attributes, names, "r", elements, None, traits.compiled, traits.compiled_words)
        recipe = Recipe([*zip(names, elements, strict=False)], {}, [step], [("r", elements[-1])], self._policy)
        made = programs.program(recipe, address_of=lambda kind: kind)
        return None if made is None or made.tables else made

    def _kernel(self, name: str, attributes: Attributes, types: tuple[TensorType, ...]) -> Kernel:
        try:
            return self._kernel_of(name, attributes, types)
        except OpError:
            raise Unfit from None

    def _moved(self, operation: Operation, record: Op) -> int:
        """What only moves elements, as its kernel moves their positions."""
        operands, (element, shape) = [self._of(v) for v in operation.operands], self._type(operation.results[0])
        types = [TensorType(self._type(v)[1], _PLACES) for v in (*operation.operands, *operation.results)]
        kernel = record.function(Call(operation.name, tuple(types[:-1]), (types[-1],), operation.attributes))
        starts = np.cumsum([0, *(self._vectors[v].count for v in operands)])
        places = [
            np.arange(start, start + self._vectors[v].count).reshape(self._shapes[v])
            for v, start in zip(operands, starts, strict=False)
        ]
        found = np.asarray(kernel(*places))
        are_whole = all(self._lies[v] is Lies.WHOLE for v in operands)
        order, lies = tuple(found.reshape(-1).tolist()), lies_of(found) if are_whole else Lies.UNKNOWN
        return self._put(Move(tuple(operands), order), element, shape, lies)

    def _window(self, operation: Operation, first: int) -> int:
        """A dynamic slice, whose starts come after so many operands, or a dynamic update."""
        source, (element, shape) = self._of(operation.operands[0]), self._type(operation.results[0])
        whole = self._shapes[source]
        sizes = shape if first == 1 else self._type(operation.operands[1])[1]
        strides = [math.prod(whole[d + 1 :]) for d in range(len(whole))]
        starts = []
        for d, operand in enumerate(operation.operands[first:]):
            number = self._of(operand)
            if whole[d] != sizes[d]:
                is_signed = self._vectors[number].element.kind is Kind.SIGNED
                starts.append(Start(number, whole[d] - sizes[d], strides[d], is_signed))
        offsets = [sum(i * k for i, k in zip(at, strides, strict=True)) for at in np.ndindex(*sizes)]
        where = tuple(starts), *runs(offsets)
        run = where[-1]
        if first == 1:
            lies = Lies.WHOLE if run == len(offsets) else Lies.IN_ORDER
            lies = lies if self._lies[source] is Lies.WHOLE else Lies.UNKNOWN
            return self._put(Read(source, *where), element, shape, lies)
        return self._put(Write(source, self._of(operation.operands[1]), *where), element, shape, self._lies[source])

    def _reduced(self, operation: Operation) -> list[int]:
        """A reduction, in the order that `reduce` promises."""
        (body,), count = operation.regions, len(operation.operands) // 2
        operands = [self._of(v) for v in operation.operands]
        shape, dimensions = self._shapes[operands[0]], sorted(np.ravel(operation.attributes["dimensions"]).tolist())
        steps = math.prod(shape[d] for d in dimensions)
        wanted = [self._type(v)[0] for v in body.arguments]
        if [self._vectors[v].element for v in operands] != [*wanted[count:], *wanted[:count]]:
            raise Unfit
        in_pairs = steps >= PAIRS_FROM and len(body.operations) > 1
        if in_pairs and not self._selects(body, wanted[:count]):
            raise Unfit
        order = [*dimensions, *(d for d in range(len(shape)) if d not in dimensions)]
        places = np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(steps, -1)
        totals = [self._spread(v, places.shape[1]) for v in operands[count:]]
        if in_pairs:
            totals = self._in_pairs(body, totals, operands[:count], places)
        for row in [] if in_pairs else places.tolist():
            totals = self._body(body, [*totals, *(self._lanes(v, row) for v in operands[:count])], len(row))
        every = tuple(range(places.shape[1]))  # the same elements, as a tensor of the result's shape
        return [
            self._put(Move((total,), every), *self._type(result))
            for result, total in zip(operation.results, totals, strict=True)
        ]

    def _selects(self, body: Region, elements: Sequence[ElementType]) -> bool:
        """Whether a body selects one of its tuples, in any order of the steps the same one."""
        if not is_selection(body):
            return False
        kernels = {
            o: self._kernel(o.name, Attributes(o.attributes), tuple([TensorType((None,), e) for e in elements_of(o)]))
            for o in body.operations
            if not (o.results and o.results[0] in self._constants)
        }

        def step(*values: np.ndarray) -> tuple[np.ndarray, ...]:
            made: dict[Value, Any] = dict(zip(body.arguments, values, strict=True))
            for operation, kernel in kernels.items():
                operands = [made[v] if v in made else self._constants[v] for v in operation.operands]
                made[operation.results[0]] = kernel(*np.broadcast_arrays(*operands))
            return tuple([made[v] for v in body.returns])

        return is_associative(step, elements)

    def _in_pairs(self, body: Region, starts: Sequence[int], operands: Sequence[int], places: np.ndarray) -> list[int]:
        """The elements at some places of each column, combined in pairs of neighbours, then with the starts."""
        width = places.shape[1]
        values = [self._lanes(v, places.reshape(-1).tolist()) for v in operands]
        height = len(places)
        while height > 1:
            half, rows = height // 2, np.arange(height * width).reshape(height, width)
            taken = [self._lanes(v, rows[i : 2 * half : 2].reshape(-1).tolist()) for i in (0, 1) for v in values]
            found = self._body(body, taken, half * width)
            if height % 2:
                both = [*range(half * width), *(half * width + rows[-1]).tolist()]
                found = [
                    self._put(Move((f, v), tuple(both)), self._vectors[v].element, (len(both),))
                    for f, v in zip(found, values, strict=True)
                ]
            values, height = found, half + height % 2
        return self._body(body, [*starts, *values], width)

    def _scattered(self, operation: Operation) -> int:
        """A scatter of one window that is whole where it does not move: nothing changes where it is out of bounds."""
        if len(operation.operands) != 3:
            raise Unfit
        source, index, update = (self._of(v) for v in operation.operands)
        element, shape = self._type(operation.results[0])
        body, numbers = operation.regions[0], operation.attributes["scatter_dimension_numbers"]
        mapped = np.ravel(numbers.get("scatter_dims_to_operand_dims", ())).astype(int).tolist()
        window = [1 if d in mapped else n for d, n in enumerate(shape)]
        if not mapped or self._vectors[index].count != len(mapped) or self._vectors[update].count != math.prod(window):
            raise Unfit
        if {self._type(v)[0] for v in body.arguments} != {element} or self._vectors[update].element != element:
            raise Unfit
        if np.ravel(numbers.get("input_batching_dims", ())).size or not is_in_order(numbers, mapped, shape):
            raise Unfit
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        kind, starts, inside = self._vectors[index].element, list[Start](), None
        for i, d in enumerate(mapped):
            number = self._lanes(index, [i])
            starts.append(Start(number, shape[d] - 1, strides[d], kind.kind is Kind.SIGNED))
            last = min(shape[d] - 1, np.iinfo(kind.dtype).max)
            for how, limit in (("GE", 0), ("LE", last)):
                end = self._literal(np.array(limit, kind.dtype), kind, ())
                attributes = Attributes({"comparison_direction": how, "compare_type": kind.kind.name})
                fits = self._computed(_COMPARE, attributes, [number, end], (kind, kind, _BOOL), ())
                both = (_BOOL,) * 3
                inside = fits if inside is None else self._computed(_AND, Attributes({}), [inside, fits], both, ())
        count = math.prod(window)
        offsets = [sum(i * k for i, k in zip(at, strides, strict=True)) for at in np.ndindex(*window)]
        where = tuple(starts), *runs(offsets)
        old = self._put(Read(source, *where), element, (count,))
        (new,) = self._body(body, [old, update], count) if body.operations else [update]
        assert inside is not None
        chosen = [self._spread(inside, count), new, old]
        new = self._computed(_SELECT, Attributes({}), chosen, (_BOOL, element, element, element), (count,))
        return self._put(Write(source, new, *where), element, shape, self._lies[source])

    def _body(self, body: Region, values: Sequence[int], count: int) -> list[int]:
        """What a body of elementwise ops on single numbers gives of so many at a time."""
        inner = dict(zip(body.arguments, values, strict=True))

        def of(value: Value) -> int:
            return inner[value] if value in inner else self._spread(self._of(value), count)

        for operation in body.operations:
            if operation.results and operation.results[0] in self._constants:
                continue
            record = lookup(operation.name)
            if record is None or not record.is_elementwise or len(operation.results) != 1:
                raise Unfit
            inner[operation.results[0]] = self._elementwise(operation, [of(v) for v in operation.operands], count)
        return [of(v) for v in body.returns]

    def _product(self, operation: Operation) -> int:
        """A sum of products: in order from +0 where it is formed so, or else by BLAS."""
        every = [self._type(v) for v in (*operation.operands, *operation.results)]
        types = tuple([TensorType(shape, element) for element, shape in every])
        kernel = self._kernel(operation.name, Attributes(operation.attributes), types)
        x, y = [self._of(v) for v in operation.operands]
        element, shape = self._type(operation.results[0])
        if kernel.multiplied is not None:
            if kernel.multiplied.terms > ALONE and any(self._lies[v] is not Lies.WHOLE for v in (x, y)):
                raise Unfit
            if self._source(x) == self._source(y):  # numpy has another function for a matrix times itself turned round
                raise Unfit
            (lhs, x_shape), (rhs, y_shape), _ = every
            pair = self._converted(x, lhs, _F32, x_shape), self._converted(y, rhs, _F32, y_shape)
            return self._converted(self._put(Multiply(pair, kernel.multiplied), _F32, shape), _F32, element, shape)
        if kernel.products is None:
            raise Unfit
        pairs, kind = kernel.products(), _F32 if element.name in _HALVES else element
        wide = [self._converted(v, e, kind, s) for v, (e, s) in zip((x, y), every, strict=False)]
        total = self._spread(self._literal(np.zeros((), kind.dtype), kind, ()), len(pairs))
        nothing, three = Attributes({}), (kind, kind, kind)
        for k in range(len(pairs[0])):
            taken = [self._lanes(v, [pair[k][i] for pair in pairs]) for i, v in enumerate(wide)]
            term = self._computed(_PRODUCT[0], nothing, taken, three, (len(pairs),))
            total = self._computed(_PRODUCT[1], nothing, (total, term), three, shape)
        return self._converted(total, kind, element, shape)

    def _converted(self, value: int, source: ElementType, target: ElementType, shape: Shape) -> int:
        """A value of floats as floats of another type."""
        if source == target:
            return value
        return self._computed(_CONVERT, Attributes({}), [value], (source, target), shape)

    def _source(self, value: int) -> int:
        """What a value is, or is a part of, perhaps moved: numpy does not copy it."""
        while True:
            instruction = self._instructions[value]
            if isinstance(instruction, Move) and len(instruction.operands) == 1:
                (value,) = instruction.operands
            elif isinstance(instruction, Read):
                value = instruction.source
            else:
                return value
