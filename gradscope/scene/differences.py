"""What to show of a comparison of two traces: the traces, first differences and counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from gradscope.analysis.likeness.aspects import Aspect, Difference, Section, Side
from gradscope.analysis.likeness.changes.all import random_states
from gradscope.analysis.likeness.compare import Comparison
from gradscope.scene.readable import plural
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

NOTHING = "(nothing)"


@dataclass(frozen=True, slots=True)
class SideScene:
    """One trace's side of a difference."""

    trace: str
    text: str
    source: str  # "train.py:14: y = x * 2", or ""


@dataclass(frozen=True, slots=True)
class DifferenceScene:
    """A difference with both its sides."""

    head: str
    sides: tuple[SideScene, SideScene]


@dataclass(frozen=True, slots=True)
class DifferencesScene:
    """The whole comparison."""

    traces: tuple[str, str]
    changes: tuple[str, ...]  # "Gelu → Tanh, 4 places, model.py:26"; causes first
    first: DifferenceScene | None
    table: TableScene
    others: tuple[DifferenceScene, ...]  # the first of each other kind
    notes: tuple[str, ...]
    verdict: str


def differences_scene(
    comparison: Comparison, traces: tuple[Trace, Trace], names: tuple[str, str]
) -> DifferencesScene:
    """The result of a comparison of two traces, as shown; `names`: the names of the traces."""
    shown = [
        _difference(section.kind, section.first, names)
        for section in comparison.sections
        if section.first is not None
    ]
    return DifferencesScene(
        traces=(f"{names[0]}: {_about(traces[0])}", f"{names[1]}: {_about(traces[1])}"),
        changes=tuple(each.text for each in comparison.changes),
        first=shown[0] if shown else None,
        table=TableScene(
            "comparison",
            (
                TableColumn("aspect", is_main=True),
                TableColumn("compared"),
                TableColumn("result", is_main=True),
            ),
            tuple(row for each in comparison.sections for row in _rows(each)),
        ),
        others=tuple(shown[1:]),
        notes=tuple(_notes(comparison, traces, names)),
        verdict=_verdict(comparison),
    )


def told_apart(paths: tuple[PurePath, PurePath]) -> tuple[str, str]:
    """The two paths, without a folder that both share."""
    one, other = paths
    if one.parent == other.parent and one.name != other.name:
        return one.name, other.name
    return str(one), str(other)


def _about(trace: Trace) -> str:
    meta = trace.meta
    producer = f"{meta.get('producer', 'unknown')} {meta.get('producer_version', '')}".strip()
    script = str(meta.get("script", ""))
    level = f"level {meta.get('level', 'unknown')}"
    return ", ".join(each for each in (script, producer, level) if each)


def _difference(kind: Aspect, difference: Difference, names: tuple[str, str]) -> DifferenceScene:
    when = [f"backward {difference.when}"] * (difference.when != NONE)
    when += [f"step {difference.step}"] * (difference.step != NONE)
    head = f"{kind}: {difference.what}" + (f", in {', '.join(when)}" if when else "")
    one, other = (
        _side(name, side)
        for name, side in zip(names, (difference.one, difference.other), strict=True)
    )
    return DifferenceScene(head, (one, other))


def _side(name: str, side: Side) -> SideScene:
    text = f"{side.site.place}: {side.site.text}" if side.site.text else side.site.place
    return SideScene(name, side.text or NOTHING, text)


def _rows(section: Section) -> list[tuple[str, str, str]]:
    """A line for each kind of difference; the first also says what was compared."""
    counts = [f"{n:,} {_singular(what) if n == 1 else what}" for what, n in section.counts]
    heads = [(str(section.kind), section.of), *[("", "")] * (len(counts) - 1)]
    return [(*head, text) for head, text in zip(heads, counts or ["same"], strict=True)]


def _singular(what: str) -> str:
    """`node that only the first has` of `nodes that only the first has`."""
    noun, _, rest = what.partition(" ")
    verb, _, more = rest.partition(" ")
    one = {"are": "is", "have": "has", "that": "that"}.get(verb, f"{verb}s")
    return f"{noun.removesuffix('s')} {one} {more}".rstrip()


def _notes(
    comparison: Comparison, traces: tuple[Trace, Trace], names: tuple[str, str]
) -> list[str]:
    notes = [f"not compared: {reason}" for reason in comparison.not_compared]
    if comparison.moved:
        notes.append(
            f"{plural(comparison.moved, 'line')} of the program moved but kept the same text: "
            "not counted as a difference"
        )
    notes += _random(traces)
    for name, trace in zip(names, traces, strict=True):
        notes += [f"{name}: {note}" for note in trace.notes]
    return notes


def _random(traces: tuple[Trace, Trace]) -> list[str]:
    """Whether both drew the same random numbers, as far as checked after optimizer steps."""
    compared, first = random_states(*traces)
    if not compared:
        return []
    if first is None:
        steps = plural(compared, "step of an optimizer", "steps of optimizers")
        return [f"random numbers: the state of the generator is the same after {steps}"]
    before = f"is the same after {plural(first, 'step')} of optimizers, and " if first else ""
    another = f"differs after step {first} of an optimizer: different seeds or different draws"
    return [f"random numbers: the state of the generator {before}{another}"]


def _verdict(comparison: Comparison) -> str:
    differing = sum(section.first is not None for section in comparison.sections)
    kinds = plural(len(comparison.sections), "aspect")
    if not differing:
        same = f"the same in all {kinds} that were compared"
        if comparison.differs:
            return f"{same}, with different settings"
        return f"{same}; lines of the program were edited" if comparison.changes else same
    return f"different in {differing} of {kinds} that were compared"
