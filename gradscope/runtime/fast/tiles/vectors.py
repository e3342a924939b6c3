"""Vectors: numbers that fill a register, for kernels with explicit SIMD.

    store(made, at, load(x, at) + load(x, at + far))

LLVM vectorizes loops automatically if it can see that arrays do not overlap, but with half the
width of AVX-512. A vector here is a value like a number: it is added, subtracted and multiplied
lane by lane. Loads and stores are contiguous, or of every second or third number (`each_second`,
`weave_two`, …).
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model

from gradscope.runtime.fast.tiles.tile import BYTES


class Vector(types.Type):  # type: ignore[misc]
    """The type of a vector: numbers of one kind that fill a register."""

    def __init__(self, number: Any) -> None:
        self.number = number
        self.lanes = 8 * BYTES // number.bitwidth
        super().__init__(f"vector({number})")

    def in_llvm(self) -> Any:
        number = ir.FloatType() if self.number == types.float32 else ir.DoubleType()
        return ir.VectorType(number, self.lanes)


@register_model(Vector)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, kind.in_llvm())


class _Writer:
    """Builds the LLVM instructions of loads, stores and shuffles."""

    def __init__(self, context: Any, builder: Any, array: Any, value: Any) -> None:
        self.builder, self.kind = builder, Vector(array.dtype)
        self.data = context.make_array(array)(context, builder, value).data
        self.align = array.dtype.bitwidth // 8

    def at(self, place: Any, vector: int) -> Any:
        """The address this number of vectors after an offset."""
        far = self.builder.add(place, ir.Constant(place.type, vector * self.kind.lanes))
        pointer = self.builder.gep(self.data, [far])
        return self.builder.bitcast(pointer, self.kind.in_llvm().as_pointer())

    def load(self, place: Any, vector: int = 0) -> Any:
        return self.builder.load(self.at(place, vector), align=self.align)

    def store(self, value: Any, place: Any, vector: int = 0) -> None:
        self.builder.store(value, self.at(place, vector), align=self.align)

    def ordered(self, first: Any, second: Any, lanes: list[int]) -> Any:
        """These lanes of two vectors, counted over both."""
        number = ir.IntType(32)
        order = ir.Constant(ir.VectorType(number, len(lanes)), [number(lane) for lane in lanes])
        return self.builder.shuffle_vector(first, second, order)

    def picked(self, parts: list[Any], lanes: list[int]) -> Any:
        """These lanes of two or three vectors, counted over all. Each contributes some."""
        count = self.kind.lanes
        made = self.ordered(parts[0], parts[1], [lane % (2 * count) for lane in lanes])
        if len(parts) == 2:
            return made
        late = [count + lane - 2 * count if lane >= 2 * count else nr
                for nr, lane in enumerate(lanes)]  # fmt: skip
        return self.ordered(made, parts[2], late)


@intrinsic
def load(typing: Any, x: Any, at: Any) -> Any:
    """Load a vector from an array at this offset."""

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _Writer(context, builder, signature.args[0], given[0]).load(given[1])

    return Vector(x.dtype)(x, types.intp), write


@intrinsic
def store(typing: Any, x: Any, at: Any, value: Any) -> Any:
    """Store a vector in an array at this offset."""

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        _Writer(context, builder, signature.args[0], given[0]).store(given[2], given[1])
        return context.get_dummy_value()

    return types.void(x, types.intp, value), write


@intrinsic
def copy(typing: Any, x: Any, begin: Any, made: Any, to: Any, count: Any) -> Any:
    """Copy `count` numbers from one array to another."""

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        source = _Writer(context, builder, signature.args[0], given[0])
        target = _Writer(context, builder, signature.args[2], given[2])
        places = target.at(given[3], 0), source.at(given[1], 0)
        cgutils.raw_memcpy(builder, *places, given[4], source.align)
        return context.get_dummy_value()

    return types.void(x, types.intp, made, types.intp, types.intp), write


@intrinsic
def transpose(typing: Any, x: Any, at: Any, far: Any, made: Any, to: Any, wide: Any) -> Any:
    """Transpose a square as wide as a vector, whose rows have distance `far`."""

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        source = _Writer(context, builder, signature.args[0], given[0])
        target = _Writer(context, builder, signature.args[3], given[3])
        count = source.kind.lanes
        places = [[given[1]], [given[4]]]
        for _ in range(count - 1):
            places[0].append(builder.add(places[0][-1], given[2]))
            places[1].append(builder.add(places[1][-1], given[5]))
        rows = [source.load(place) for place in places[0]]
        half = count // 2
        while half:  # squares of this size are exchanged across the diagonal
            for row in (nr for nr in range(count) if not nr & half):
                pair = rows[row], rows[row + half]
                lanes = [lane if not lane & half else lane - half + count for lane in range(count)]
                rows[row] = source.ordered(*pair, lanes)
                lanes = [lane + half if not lane & half else lane + count for lane in range(count)]
                rows[row + half] = source.ordered(*pair, lanes)
            half //= 2
        for row, place in zip(rows, places[1], strict=True):
            target.store(row, place)
        return context.get_dummy_value()

    number = types.intp
    return types.void(x, number, number, made, number, number), write


def _every(step: int) -> Any:
    """Load every second or third number, from `first`, out of two or three vectors."""

    @intrinsic(prefer_literal=True)
    def every(typing: Any, x: Any, at: Any, first: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            writer = _Writer(context, builder, signature.args[0], given[0])
            parts = [writer.load(given[1], nr) for nr in range(step)]
            lanes = [first.literal_value + step * lane for lane in range(writer.kind.lanes)]
            return writer.picked(parts, lanes)

        return Vector(x.dtype)(x, types.intp, first), write

    return every


each_second, each_third = _every(2), _every(3)


def _weave(step: int) -> Any:
    """Store two or three vectors interleaved."""

    @intrinsic
    def weave(typing: Any, x: Any, at: Any, values: Any) -> Any:
        def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            writer = _Writer(context, builder, signature.args[0], given[0])
            count = writer.kind.lanes
            parts = [builder.extract_value(given[2], nr) for nr in range(step)]
            for vector in range(step):
                places = range(vector * count, (vector + 1) * count)
                lanes = [place % step * count + place // step for place in places]
                writer.store(writer.picked(parts, lanes), given[1], vector)
            return context.get_dummy_value()

        return types.void(x, types.intp, values), write

    return weave


weave_two, weave_three = _weave(2), _weave(3)


@intrinsic
def everywhere(typing: Any, x: Any, number: Any) -> Any:
    """A vector with this number in all lanes, of the array's kind."""

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.return_type.in_llvm()
        number = context.cast(builder, given[1], signature.args[1], x.dtype)
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.IntType(32)(0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None)
        return builder.shuffle_vector(one, one, order)

    return Vector(x.dtype)(x, number), write


def _lane_by_lane(operation: Any, instruction: str) -> None:
    """Map a Python operator to this instruction, for two vectors of one kind."""

    @infer_global(operation)
    class _Meant(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            alike = len(args) == 2 and args[0] == args[1]
            return signature(args[0], *args) if alike and isinstance(args[0], Vector) else None

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return getattr(builder, instruction)(*given)

    lower_builtin(operation, Vector, Vector)(write)


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
):
    _lane_by_lane(_operation, _instruction)
