"""Opens compiled regions in a picture: a frame with the operations that the compiler reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradscope.analysis.answers.compiled_facts import CompiledOp, RegionInside, compiled
from gradscope.scene.graph.boxes import source_lines
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow, Box, BoxLine, GraphScene, Group, occurring
from gradscope.scene.kinds import Form, kind_of_call
from gradscope.scene.readable import count, plural
from gradscope.trace.schema import NONE, Node, Phase
from gradscope.trace.trace import Trace

INFERRED = (
    "operations inside of compiled regions are those that the compiler reported; they were not "
    "observed when the region ran (inferred)"
)


def with_insides(
    trace: Trace, scene: GraphScene, phase: Phase, options: GraphOptions
) -> GraphScene:
    """The same picture, with a frame around each compiled region that fits into it."""
    regions = {each.id: each for each in compiled(trace).regions if each.part(phase)}
    if not regions:
        return scene
    nodes, room = trace.table(Node), options.most - len(scene.boxes)
    boxes: list[Box] = []
    arrows, groups, notes = [*scene.arrows], [*scene.groups], [*scene.notes]
    opened = folded = 0
    for box in scene.boxes:
        alone = box.form in (Form.FUNCTION, Form.OPERATION) and len(box.nodes) == 1
        region = nodes.row(box.nodes[0]).region if alone else NONE
        if region not in regions:
            boxes.append(box)
            continue
        inside = _Inside(regions[region], phase, box)
        if len(inside.ops) > room and not options.everything:
            folded += 1
            line = BoxLine(f"compiled region: {_summary(regions[region], phase)}")
            boxes.append(replace(box, lines=(*box.lines, line)))
            continue
        opened, room = opened + 1, room - len(inside.ops)
        groups.append(inside.group())
        boxes += [replace(box, group=inside.id), *inside.boxes()]
        arrows += inside.arrows()
    if folded:
        notes.append(f"{plural(folded, 'compiled region')} folded; --all opens all of them")
    if opened:
        notes.append(INFERRED)
    kinds, forms, marks = occurring(boxes)
    return replace(
        scene, boxes=tuple(boxes), arrows=tuple(arrows), groups=tuple(groups), notes=tuple(notes),
        kinds=kinds, forms=forms, marks=marks,
    )  # fmt: skip


def region_title(region: RegionInside, phase: Phase) -> str:
    """As in "compiled region 0 · 22 operations in 3 kernels"."""
    return f"compiled region {count(region.id)} · {_summary(region, phase)}"


def _summary(region: RegionInside, phase: Phase) -> str:
    kernels = sum(each is phase for each, _ in region.kernels)
    into = f" in {plural(kernels, 'kernel')}" if kernels else ""
    return f"{plural(len(region.part(phase)), 'operation')}{into}"


@dataclass(frozen=True, slots=True)
class _Inside:
    """The inside of the region that a box stands for."""

    region: RegionInside
    phase: Phase
    box: Box

    @property
    def id(self) -> str:
        return f"r{self.box.id}"

    @property
    def ops(self) -> tuple[CompiledOp, ...]:
        return self.region.part(self.phase)

    def group(self) -> Group:
        return Group(self.id, region_title(self.region, self.phase), self.box.group)

    def boxes(self) -> Iterator[Box]:
        for op in self.ops:
            lines = [*source_lines(op.site), *([BoxLine(op.type)] if op.type else [])]
            if op.kernel:
                lines.append(BoxLine(f"in {op.kernel}"))
            if op.kept:
                lines.append(BoxLine("kept for backward"))
            yield Box(
                id=self._of(op.id),
                form=Form.OPERATION,
                title=op.op,
                ordinal="",
                kind=kind_of_call(op.op),
                lines=tuple(lines),
                marks=(),
                heat=None,
                group=self.id,
                tooltip=(f"{op.name} = {op.op}", "reported by the compiler, not observed"),
                nodes=(),
            )

    def arrows(self) -> Iterator[Arrow]:
        own = {op.id: op for op in self.ops}
        for op in self.ops:
            tails = [own[each] for each in op.reads if each in own]
            for tail in tails:
                yield Arrow(self._of(tail.id), self._of(op.id), tail.type, Form.OPERATION)
            if len(tails) < len(op.reads):  # it reads inputs of the region
                yield Arrow(self.box.id, self._of(op.id), "", Form.OPERATION)

    def _of(self, op: int) -> str:
        return f"{self.id}o{op}"
