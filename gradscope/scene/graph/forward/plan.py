"""The picture of captured steps: calls on arrays, fused kernels, arrays and guards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from gradscope.analysis.answers.captured import (
    CaptureInfo,
    PlanFacts,
    PlanPiece,
    captured,
    whole_of,
)
from gradscope.analysis.identity.sites import Site, at
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import (
    Arrow,
    Box,
    BoxLine,
    GraphScene,
    Group,
    Scale,
    Tone,
    occurring,
)
from gradscope.scene.kinds import Form, NodeKind, kind_of, kind_of_call
from gradscope.scene.readable import byte_count, count, duration, plural, shape
from gradscope.trace.schema import NONE, Lack, Phase
from gradscope.trace.trace import Trace

MOST_FORMULAS, MOST_GUARDS, MOST_NAMES = 6, 3, 3
PARTS = {Phase.FORWARD: "forward", Phase.BACKWARD: "backward", Phase.OPTIMIZER: "optimizer"}
NO_PLAN = (
    "this trace holds no plan: a captured step (gradscope.capture, torch.compile) has one once it "
    "was replayed, at level graph or engine"
)
SHARED = "the time of a fused kernel was measured as a whole; times inside it are shares (inferred)"

Unit = tuple[PlanPiece, ...]
"""Pieces of a plan that share one box."""


def plan_scene(trace: Trace, options: GraphOptions) -> GraphScene:
    """All plans of a trace, with the eager code between them."""
    steps = captured(trace)
    plans = [(step, plan) for step in steps for plan in step.plans if plan.pieces]
    if not plans:
        raise EmptyTraceError(NO_PLAN)
    many = sum(len(plan.pieces) for _, plan in plans)
    level = 0 if options.everything else _level([plan for _, plan in plans], options.most)
    drawn = [_Drawn(step, plan, _units(plan, level), _whole(step, steps)) for step, plan in plans]
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    groups: list[Group] = []
    for each in drawn:
        boxes += each.boxes()
        arrows += each.arrows()
        groups += each.groups()
    cuts, ways = _cuts(steps, drawn)
    boxes, arrows = [*boxes, *cuts], [*arrows, *ways]
    scale = None
    if options.color_by is ColorBy.TIME:
        boxes, scale = _warm(boxes, {id: ns for each in drawn for id, ns in each.times()})
    shown = sum(len(each.units) for each in drawn)
    folded = f"{count(many)} pieces in {count(shown)} boxes; --all draws each"
    fused = any(piece.fused for _, plan in plans for piece in plan.pieces)
    kinds, forms, marks = occurring(boxes)
    return GraphScene(
        title=f"{plural(len(plans), 'plan')} of {plural(len({e.whole for e in drawn}), 'step')}",
        notes=(*((folded,) if shown < many else ()), *((SHARED,) if fused else ())),
        boxes=tuple(boxes),
        arrows=tuple(arrows),
        groups=tuple(groups),
        color_by=options.color_by,
        scale=scale,
        kinds=kinds,
        forms=forms,
        marks=marks,
        graph=GraphOf.PLAN,
    )


def _whole(step: CaptureInfo, steps: Sequence[CaptureInfo]) -> str:
    return whole_of(step, steps).name.rpartition("<locals>.")[2]


# -- folding -------------------------------------------------------------------------------------


def _level(plans: Sequence[PlanFacts], most: int) -> int:
    """How much is folded: nothing, calls of one line, or whole parts."""
    levels = (sum(len(_units(plan, level)) for plan in plans) for level in range(2))
    return next((level for level, many in enumerate(levels) if many <= most), 2)


def _units(plan: PlanFacts, level: int) -> tuple[Unit, ...]:
    if level == 0:
        return tuple((piece,) for piece in plan.pieces)
    same = _part_and_line if level == 1 else _part
    return tuple(tuple(run) for _, run in groupby(plan.pieces, same))


def _part(piece: PlanPiece) -> tuple[Phase, str, int]:
    return piece.phase, "", 0


def _part_and_line(piece: PlanPiece) -> tuple[Phase, str, int]:
    return piece.phase, piece.site.place, piece.first if piece.fused else NONE


# -- one plan ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One plan that is drawn."""

    step: CaptureInfo
    plan: PlanFacts
    units: tuple[Unit, ...]
    whole: str

    @property
    def id(self) -> str:
        return f"p{self.plan.id}"

    def box_of(self, nr: int) -> str:
        return f"{self.id}u{nr}"

    def boxes(self) -> Iterator[Box]:
        yield self._guards()
        used = {n for unit in self.units for piece in unit for n in piece.reads}
        for number, array in self.plan.arrays.items():
            if array.role == "argument" and number in used:
                yield self._data(f"{self.id}a{number}", array.name, (_size(self.plan, number),))
        for nr, unit in enumerate(self.units):
            yield self._unit(nr, unit)
        results = self._results()
        if results:
            lines = tuple(_size(self.plan, number) for number in results)
            yield self._data(f"{self.id}r", "returned", lines)

    def _results(self) -> list[int]:
        return [nr for nr, array in self.plan.arrays.items() if array.role == "result"]

    def _guards(self) -> Box:
        names = self.plan.guards
        more = len(names) - MOST_GUARDS
        lines = [*names[:MOST_GUARDS], *([f"and {count(more)} more"] if more > 0 else [])]
        title = f"guards: {plural(len(names), 'value')}"
        return self._data(f"{self.id}g", title, lines, names[:100])

    def _data(self, id: str, title: str, lines: Sequence[str], more: Sequence[str] = ()) -> Box:
        told = tuple(BoxLine(each) for each in lines)
        return Box(
            id, Form.DATA, title, "", NodeKind.OTHER, told, (), None, self.id,
            (title, *(more or lines)), (),
        )  # fmt: skip

    def _unit(self, nr: int, unit: Unit) -> Box:
        first = unit[0]
        labels = list(dict.fromkeys(label for piece in unit for label in piece.labels))
        calls = sum(len(piece.labels) for piece in unit)
        title = ", ".join(labels[:MOST_NAMES]) + "…" * (len(labels) > MOST_NAMES)
        form = Form.OPERATION
        if len(unit) > 1:
            form = Form.FOLDED
            title = f"{title} · {plural(calls, 'call')}"
        elif first.fused:
            form = Form.KERNEL
            title = f"{plural(calls, 'call')} fused: {title}" if calls > 1 else title
        ns = _took(unit)
        lines = [
            *_source(unit),
            *[
                BoxLine(text, Tone.CODE)
                for text in first.formulas[:MOST_FORMULAS]
                if len(unit) == 1
            ],
            *self._arrays(unit),
            *([BoxLine(duration(ns))] if ns != NONE else []),
        ]
        if len(unit) == 1 and len(first.formulas) > MOST_FORMULAS:
            lines.insert(
                len(_source(unit)) + MOST_FORMULAS,
                BoxLine(f"and {len(first.formulas) - MOST_FORMULAS} more"),
            )
        tooltip = [title, *(site.place for piece in unit for site in piece.sites)]
        tooltip += [text for piece in unit for text in piece.formulas]
        return Box(
            self.box_of(nr), form, title, "", _kind(first), tuple(lines), (), None,
            f"{self.id}{first.phase.name}", tuple(dict.fromkeys(tooltip)), (),
        )  # fmt: skip

    def _arrays(self, unit: Unit) -> Iterator[BoxLine]:
        """The arrays that are created, and existing ones that are read or written."""
        made = [nr for piece in unit for nr in piece.makes]
        if len(made) == 1:
            yield BoxLine(_size(self.plan, made[0]))
        elif made:
            size = byte_count(sum(self.plan.arrays[nr].bytes for nr in made))
            yield BoxLine(f"{plural(len(made), 'array')}, {size}")
        read = dict.fromkeys(nr for piece in unit for nr in piece.reads)
        names = [
            self.plan.arrays[nr].name
            for nr in read
            if self.plan.arrays[nr].role in ("state", "gradient")
        ]
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            yield BoxLine(f"with {', '.join(names[:MOST_NAMES])}{more}")

    def arrows(self) -> Iterator[Arrow]:
        maker: dict[int, str] = {}
        for number, array in self.plan.arrays.items():
            if array.role == "argument":
                maker[number] = f"{self.id}a{number}"
        if self.units:
            yield Arrow(f"{self.id}g", self.box_of(0), "hold", Form.OPERATION)
        for nr, unit in enumerate(self.units):
            own = self.box_of(nr)
            read = dict.fromkeys(number for piece in unit for number in piece.reads)
            between: dict[str, list[int]] = {}
            for number in read:
                if number in maker and maker[number] != own:
                    between.setdefault(maker[number], []).append(number)
            for tail, numbers in between.items():
                yield Arrow(tail, own, self._label(numbers), Form.OPERATION)
            maker.update((number, own) for piece in unit for number in piece.makes)
        for number in self._results():
            if number in maker:
                yield Arrow(maker[number], f"{self.id}r", "", Form.OPERATION)

    def _label(self, numbers: Sequence[int]) -> str:
        if len(numbers) > 1:
            return plural(len(numbers), "array")
        return shape(self.plan.arrays[numbers[0]].shape)

    def groups(self) -> Iterator[Group]:
        plan, step = self.plan, self.step
        first, last = step.lines
        lines = f" lines {first} to {last}" if last > first else f" line {first}" if first else ""
        times = f", {duration(plan.replay_ns)} each" if plan.replay_ns != NONE else ""
        title = f"{self.whole}{lines}: replayed {plural(plan.replays, 'time')}{times}"
        yield Group(self.id, title, "")
        for part in dict.fromkeys(unit[0].phase for unit in self.units):
            yield Group(f"{self.id}{part.name}", PARTS.get(part, part.name.lower()), self.id)

    def times(self) -> Iterator[tuple[str, int]]:
        for nr, unit in enumerate(self.units):
            if _took(unit) != NONE:
                yield self.box_of(nr), _took(unit)


def _took(unit: Unit) -> int:
    known = [piece.ns for piece in unit if piece.ns != NONE]
    return sum(known) if known else NONE


def _source(unit: Unit) -> list[BoxLine]:
    sites = list(dict.fromkeys(site for piece in unit for site in piece.sites if site.place))
    if not sites:
        return []
    if len(sites) > 1:
        return [BoxLine(f"{sites[0].place} and {plural(len(sites) - 1, 'other')}", Tone.SITE)]
    return _lines_of(sites[0])


def _lines_of(site: Site) -> list[BoxLine]:
    return [BoxLine(site.place, Tone.SITE), *([BoxLine(site.text, Tone.CODE)] if site.text else [])]


def _size(plan: PlanFacts, number: int) -> str:
    array = plan.arrays[number]
    return f"{shape(array.shape)} {array.dtype}"


def _kind(piece: PlanPiece) -> NodeKind:
    label = piece.labels[0].partition(":")[0]
    return kind_of(label) if piece.phase is Phase.BACKWARD else kind_of_call(label)


# -- between plans -------------------------------------------------------------------------------


def _cuts(steps: Sequence[CaptureInfo], drawn: Sequence[_Drawn]) -> tuple[list[Box], list[Arrow]]:
    """Lines that run eagerly between plans, and their order."""
    boxes, arrows = [], []
    for step in steps:
        for nr, lack in enumerate(step.lacks):
            if lack.kind not in (Lack.PIECE, Lack.REPLAYED) or not lack.site.place:
                continue
            lines = [*_lines_of(lack.site), BoxLine(lack.reason, Tone.ALARM)]
            title = "runs eagerly"
            box = Box(
                f"c{step.id}n{nr}", Form.DATA, title, "", NodeKind.OTHER, tuple(lines),
                (), None, "", (title, lack.reason, at(lack.site)), (),
            )  # fmt: skip
            boxes.append(box)
            pieces = [each for each in drawn if each.step.whole == step.id]
            before = [each for each in pieces if each.step.lines[1] <= lack.site.line]
            after = [each for each in pieces if each.step.lines[0] > lack.site.line]
            if before and before[-1].units:
                last = before[-1]
                tail = last.box_of(len(last.units) - 1)
                arrows.append(Arrow(tail, box.id, "then", Form.OPERATION))
            if after:
                arrows.append(Arrow(box.id, f"{after[0].id}g", "then", Form.OPERATION))
    return boxes, arrows


def _warm(boxes: Sequence[Box], times: dict[str, int]) -> tuple[list[Box], Scale]:
    most = max(times.values(), default=0)
    scale = Scale("median time of a replay", duration(0), duration(most))
    made = [
        replace(box, heat=times[box.id] / most) if most and box.id in times else box
        for box in boxes
    ]
    return made, scale
