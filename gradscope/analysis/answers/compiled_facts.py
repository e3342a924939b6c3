"""Compiled functions: their compilations, graph breaks, regions, and what is inside of regions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site, site_of
from gradscope.trace.schema import (
    NONE,
    Compilation,
    GraphBreak,
    Node,
    Phase,
    Region,
    RegionKernel,
    RegionOp,
)
from gradscope.trace.trace import Trace

INPUT = "input"
_FUSED = re.compile(r"^(?:cpp|triton)_(?:[a-z]+_)??fused_|_\d+$")


@dataclass(frozen=True, slots=True)
class CompiledOp:
    """One operation inside a region, or one of its inputs."""

    id: int
    name: str
    op: str  # "mm"; "input"
    type: str
    phase: Phase
    site: Site
    reads: tuple[int, ...]
    kept: bool  # kept between forward and backward
    kernel: str  # the kernel that contains it, as far as names show; "": not known

    @property
    def is_input(self) -> bool:
        return self.op == INPUT


@dataclass(frozen=True, slots=True)
class RegionInside:
    """A compiled graph: what it was compiled from."""

    id: int
    function: str
    compilation: str  # "0/1"
    site: Site  # of the function
    ops: tuple[CompiledOp, ...]
    kernels: tuple[tuple[Phase, str], ...]
    cached: bool
    nodes: int  # number of its nodes in the trace

    def part(self, phase: Phase) -> tuple[CompiledOp, ...]:
        """The operations of its forward or backward."""
        return tuple(each for each in self.ops if each.phase is phase and not each.is_input)

    @property
    def kept(self) -> tuple[CompiledOp, ...]:
        """The inputs and results that are kept between forward and backward."""
        return tuple(each for each in self.ops if each.kept and each.phase is Phase.FORWARD)


@dataclass(frozen=True, slots=True)
class BrokenAt:
    """A line at which the graph broke."""

    reason: str
    hint: str
    site: Site
    compilation: str  # "0/1"


@dataclass(frozen=True, slots=True)
class CompiledAgain:
    """A further compilation of a function, because earlier ones did not fit."""

    name: str
    reasons: tuple[str, ...]
    function: str
    site: Site


@dataclass(frozen=True, slots=True)
class CompiledFacts:
    """All that was compiled."""

    compilations: int = 0
    functions: int = 0
    ns: int = 0  # in compilations, without backwards that were compiled later
    breaks: tuple[BrokenAt, ...] = ()
    again: tuple[CompiledAgain, ...] = ()
    failed: tuple[tuple[str, Site, str], ...] = ()  # function, its line, the error
    regions: tuple[RegionInside, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.compilations or self.regions)


def compiled(trace: Trace) -> CompiledFacts:
    """What was compiled, as the compiler reported it."""
    return trace.once(_Compiled).facts


def region_of(trace: Trace, node: Node) -> RegionInside | None:
    """The inside of a CompiledFunctionBackward, if it was reported."""
    return next((each for each in compiled(trace).regions if each.id == node.region), None)


class _Compiled:
    """The facts of a trace."""

    def __init__(self, trace: Trace) -> None:
        rows = {row.id: row for row in trace.rows(Compilation)}
        names = {id: (row.function, site_of(trace, row.stack)) for id, row in rows.items()}
        broken = [
            BrokenAt(
                row.reason, row.hint, site_of(trace, row.stack),
                rows[row.compilation].name if row.compilation in rows else "",
            )
            for row in trace.rows(GraphBreak)
        ]  # fmt: skip
        self.facts = CompiledFacts(
            len(rows),
            len({row.name.partition("/")[0] for row in rows.values()}),
            sum(row.end - row.begin for row in rows.values() if row.end != NONE),
            tuple(dict.fromkeys(broken)),
            tuple(
                CompiledAgain(row.name, row.again, *names[row.id])
                for row in rows.values()
                if row.again
            ),
            tuple((*names[row.id], row.error) for row in rows.values() if row.error),
            tuple(_regions(trace, rows)),
        )


def _regions(trace: Trace, compilations: dict[int, Compilation]) -> Iterator[RegionInside]:
    ops: dict[int, list[RegionOp]] = {}
    for row in trace.rows(RegionOp):
        ops.setdefault(row.region, []).append(row)
    kernels: dict[int, list[RegionKernel]] = {}
    for kernel in trace.rows(RegionKernel):
        kernels.setdefault(kernel.region, []).append(kernel)
    nodes = Counter(trace.table(Node)["region"].tolist())
    for region in trace.rows(Region):
        whole, made = ops.get(region.id, []), kernels.get(region.id, [])
        of = compilations.get(region.compilation)
        yield RegionInside(
            region.id,
            "" if of is None else of.function,
            "" if of is None else of.name,
            Site() if of is None else site_of(trace, of.stack),
            tuple(_ops(trace, whole, made)),
            tuple((Phase(each.phase), each.name) for each in made),
            region.cached,
            nodes[region.id],
        )


def _ops(
    trace: Trace, rows: Sequence[RegionOp], kernels: Sequence[RegionKernel]
) -> Iterator[CompiledOp]:
    backward = {row.name for row in rows if row.phase == Phase.BACKWARD and row.op == INPUT}
    forward = {row.name for row in rows if row.phase == Phase.FORWARD}
    by_phase = {
        phase: [(each.name, _names(each)) for each in kernels if each.phase == phase]
        for phase in (Phase.FORWARD, Phase.BACKWARD)
    }
    for row in rows:
        phase, op = Phase(row.phase), plain_name(row.op)
        among = dict.fromkeys(name for name, names in by_phase.get(phase, []) if op in names)
        kept = row.name in backward and row.name in forward
        yield CompiledOp(
            row.id, row.name, op, row.type, phase, own_site(trace, row.stack), row.reads,
            kept and (phase is Phase.FORWARD or row.op == INPUT),
            next(iter(among)) if len(among) == 1 else "",
        )  # fmt: skip


def plain_name(op: str) -> str:
    """As in "mm" for "aten.mm.default"."""
    parts = op.split(".")
    return parts[1] if len(parts) > 2 else op


def _names(kernel: RegionKernel) -> frozenset[str]:
    """The operations of a kernel; without a description, all that its name may contain."""
    if kernel.ops:
        return frozenset(kernel.ops)
    words = _FUSED.sub("", kernel.name).split("_")
    ends = range(1, len(words) + 1)
    return frozenset("_".join(words[i:j]) for j in ends for i in range(j))
