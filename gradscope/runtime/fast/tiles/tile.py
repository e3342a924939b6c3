"""The register tile: some rows of a matrix product, up to three vectors wide.

    c[row, :] += sum over steps of a[row, step] * b[step, :]

The offset of each step in each matrix is in a table, or is one number if all steps have the same
distance. So one tile computes convolutions (a step is a channel and a tap), gradients of weights (a
step is a pixel) and ordinary products, without copies.

# Note [How large a tile is]
A sum that is needed again before it is finished has to wait: processors take about four cycles for
a multiply-add and start two in each, so at least eight sums must be under way, and loaded values
should be used often. A tile of 8 rows and 3 vectors has 24 sums and loads 11 numbers and vectors
for them in each step: 28 of the 32 registers of AVX-512 and NEON. One of 4 rows takes all 16 of
AVX2 and SSE. The processor is part of the key of Numba's cache.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from gradscope.runtime.fast.compiling.compiled import inner


def registers(triple: str, features: str) -> tuple[int, int]:
    """Bits of a vector register of this processor, and the number of registers."""
    has = set(features.split(","))
    if "+avx512f" in has:
        return 512, 32
    if triple.startswith(("aarch64", "arm64")):
        return 128, 32
    return 256 if "+avx2" in has else 128, 16


_TRIPLE, _, _FEATURES = cpu_target.target_context.codegen().magic_tuple()
MACHINE: Final = _TRIPLE.partition("-")[0]
BITS, REGISTERS = registers(_TRIPLE, _FEATURES)
ROWS: Final = REGISTERS // 4
"""Rows of a tile."""
VECTORS: Final = 3
"""Largest width of a tile in vectors."""
STARTS: Final = 11
"""Index of the argument with initial sums."""
BYTES: Final = BITS // 8
"""Bytes of a vector."""


@inner
def whole(count: int, lanes: int) -> int:
    """The count, rounded up to whole vectors."""
    return -(-count // lanes) * lanes


@inner
def add_products(left: Any, right: Any, steps: Any, into: Any, vectors: int) -> None:
    """Add the products of some steps, for this number of vectors.

    `left`: a matrix, its offset, the distance of rows, and the offset of each step, or the common
    distance of steps. `right`: a matrix, the offset of each vector, or of the first one if they are
    adjacent, and the offsets of its steps. `into`: the matrix to add to, its offset and the
    distance of rows.
    """
    if vectors >= 3:
        _three(*left, *right, steps, *into, None)
    elif vectors == 2:
        _two(*left, *right, steps, *into, None)
    else:
        _one(*left, *right, steps, *into, None)


@inner
def make_products(left: Any, right: Any, steps: Any, into: Any, vectors: int, starts: Any) -> None:
    """The same, but overwrites c.

    `starts`: an array with initial sums, the offset of the tile in it, and the distance of its
    rows; None: sums start with zero.
    """
    if vectors >= 3:
        _new_three(*left, *right, steps, *into, starts)
    elif vectors == 2:
        _new_two(*left, *right, steps, *into, starts)
    else:
        _new_one(*left, *right, steps, *into, starts)


@inner
def of_row(row: int, rows: int) -> int:
    """The index of a row for the tiles. The last tile starts early enough to be whole."""
    first = row // ROWS * ROWS
    return row + max(0, first - (rows - ROWS))


def _tile(vectors: int, *, adds: bool) -> Any:
    """The tile of this number of vectors, which adds to c or overwrites it.

    Steps and offsets are tables or numbers. Sums start with given values or zero.
    """

    @intrinsic
    def tile(
        typing: Any,
        a: Any,
        a_at: Any,
        a_row: Any,
        a_steps: Any,
        b: Any,
        b_at: Any,
        b_steps: Any,
        steps: Any,
        c: Any,
        c_at: Any,
        c_row: Any,
        starts: Any,
    ) -> Any:
        number, pair = types.intp, types.UniTuple(types.intp, 2)
        begins = number if isinstance(b_at, types.Integer) else types.UniTuple(number, VECTORS)
        a_steps = number if isinstance(a_steps, types.Integer) else a_steps
        b_steps = number if isinstance(b_steps, types.Integer) else b_steps
        if starts != types.none:
            starts = types.Tuple((starts.types[0], number, number))
        matrices = (a, number, number, a_steps, b, begins, b_steps, pair, c, number, number)
        return types.void(*matrices, starts), lambda *given: _Tile(vectors, adds, *given).write()

    return tile


_one, _two, _three = (_tile(vectors, adds=True) for vectors in range(1, VECTORS + 1))
_new_one, _new_two, _new_three = (_tile(n, adds=False) for n in range(1, VECTORS + 1))


class _Tile:
    """Builds the LLVM instructions of one tile."""

    def __init__(
        self, vectors: int, adds: bool, context: Any, builder: Any, signature: Any, given: Any
    ) -> None:
        self.vectors, self.adds = vectors, adds
        self.context, self.builder = context, builder
        self.kinds, self.given = signature.args, given
        number = signature.args[0].dtype
        self.bytes = number.bitwidth // 8
        self.lanes = BYTES // self.bytes
        self.vector = ir.VectorType(context.get_value_type(number), self.lanes)

    def write(self) -> Any:
        """Write a loop over the steps, then the addition to c."""
        builder, before = self.builder, self.builder.block
        a_rows, columns = self._rows(0), self._columns()
        first, last = (builder.extract_value(self.given[7], nr) for nr in range(2))
        starts = self._starts()
        loop, after = (builder.append_basic_block(name) for name in ("products", "sums"))
        builder.cbranch(builder.icmp_signed("<", first, last), loop, after)

        builder.position_at_end(loop)
        step, sums = builder.phi(first.type), self._sums()
        a_far, b_far = self._far(3, step), self._far(6, step)
        seen = [self._load(builder.gep(column, [b_far])) for column in columns]
        made = [
            self._multiplied(builder.gep(row, [a_far]), seen, line)
            for row, line in zip(a_rows, sums, strict=True)
        ]
        following = builder.add(step, ir.Constant(step.type, 1))
        again = builder.cbranch(builder.icmp_signed("<", following, last), loop, after)
        again.set_metadata("llvm.loop", self._not_unrolled())
        step.add_incoming(first, before)
        step.add_incoming(following, loop)

        builder.position_at_end(after)
        totals = self._sums()
        for phis in (sums, totals):
            self._come_from(phis, before, starts, loop, made)
        for row, line in zip(self._rows(8), totals, strict=True):
            for nr, total in enumerate(line):
                at = self._beside(row, nr)
                self._store(builder.fadd(self._load(at), total) if self.adds else total, at)
        return self.context.get_dummy_value()

    def _data(self, nr: int) -> Any:
        """The address of an array argument."""
        array = self.context.make_array(self.kinds[nr])
        return array(self.context, self.builder, self.given[nr]).data

    def _rows(self, nr: int) -> list[Any]:
        """The addresses of the rows of a matrix, given by array, offset and distance."""
        at, far = self.given[nr + 1 : nr + 3]
        rows = [self.builder.gep(self._data(nr), [at])]
        while len(rows) < ROWS:
            rows.append(self.builder.gep(rows[-1], [far]))
        return rows

    def _columns(self) -> list[Any]:
        """The addresses of the vectors of the right matrix: from a table, or adjacent."""
        at = self.given[5]
        if isinstance(self.kinds[5], types.Integer):
            places = [
                self.builder.add(at, ir.Constant(at.type, nr * self.lanes))
                for nr in range(self.vectors)
            ]
        else:
            places = [self.builder.extract_value(at, nr) for nr in range(self.vectors)]
        return [self.builder.gep(self._data(4), [place]) for place in places]

    def _far(self, nr: int, step: Any) -> Any:
        """The offset of a step in a matrix."""
        if isinstance(self.kinds[nr], types.Integer):
            return self.builder.mul(step, self.given[nr])
        return self.builder.load(self.builder.gep(self._data(nr), [step]))

    def _sums(self) -> list[list[Any]]:
        return [[self.builder.phi(self.vector) for _ in range(self.vectors)] for _ in range(ROWS)]

    def _starts(self) -> list[list[Any]]:
        """The initial sums."""
        if self.kinds[STARTS] == types.none:
            return [[ir.Constant(self.vector, None)] * self.vectors] * ROWS
        array, at, far = (self.builder.extract_value(self.given[STARTS], nr) for nr in range(3))
        data = self.context.make_array(self.kinds[STARTS].types[0])
        row = self.builder.gep(data(self.context, self.builder, array).data, [at])
        made = []
        for _ in range(ROWS):
            made.append([self._load(self._beside(row, nr)) for nr in range(self.vectors)])
            row = self.builder.gep(row, [far])
        return made

    def _beside(self, row: Any, nr: int) -> Any:
        """The address of a vector in a row."""
        return self.builder.gep(row, [ir.Constant(ir.IntType(64), nr * self.lanes)])

    def _come_from(self, phis: Any, before: Any, starts: Any, loop: Any, made: Any) -> None:
        """Connect the sums: initial values from ahead of the loop, then its own results."""
        for line, old, new in zip(phis, starts, made, strict=True):
            for phi, start, value in zip(line, old, new, strict=True):
                phi.add_incoming(start, before)
                phi.add_incoming(value, loop)

    def _multiplied(self, at: Any, seen: list[Any], sums: list[Any]) -> list[Any]:
        """The sums of a row, plus the products of its number with the vectors."""
        by = self._everywhere(self.builder.load(at))
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.bytes}"
        fused = cgutils.get_or_insert_function(self.builder.module, kind, name)
        made = zip(seen, sums, strict=True)
        return self._here([self.builder.call(fused, [by, each, old]) for each, old in made])

    def _here(self, values: list[Any]) -> list[Any]:
        """The same values, computed before anything is loaded below.

        Otherwise LLVM loads the numbers of all rows first, for which there are too few registers.
        """
        kind = {"x86_64": "v", "aarch64": "w", "arm64": "w"}.get(MACHINE)
        if kind is None:
            return values
        several = len(values) > 1
        made_of = [self.vector] * len(values)
        result = ir.LiteralStructType(made_of) if several else self.vector
        held = [f"={kind}"] * len(values) + [str(nr) for nr in range(len(values))]
        constraint = ",".join([*held, "~{memory}"])
        function = ir.FunctionType(result, made_of)
        made = self.builder.asm(function, "", constraint, values, side_effect=True)
        if not several:
            return [made]
        return [self.builder.extract_value(made, nr) for nr in range(len(values))]

    def _everywhere(self, number: Any) -> Any:
        """A vector with this number in all lanes."""
        small = ir.IntType(32)
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(small, 0))
        first = ir.Constant(ir.VectorType(small, self.lanes), None)
        return self.builder.shuffle_vector(one, one, first)

    def _load(self, at: Any) -> Any:
        at = self.builder.bitcast(at, self.vector.as_pointer())
        return self.builder.load(at, align=self.bytes)

    def _store(self, value: Any, at: Any) -> None:
        at = self.builder.bitcast(at, self.vector.as_pointer())
        self.builder.store(value, at, align=self.bytes)

    def _not_unrolled(self) -> Any:
        """Metadata that tells LLVM not to unroll a loop: two steps need too many registers."""
        module = self.builder.module
        told = module.add_metadata([None, module.add_metadata(["llvm.loop.unroll.disable"])])
        told.operands = (told, *told.operands[1:])  # metadata of a loop refers to itself first
        return told
