"""The part of a long trace that is drawn by default, and its title."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.backwards import backward_numbered
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import RankOf, on_ranks
from gradscope.analysis.report import worst_in_a_step
from gradscope.scene.graph.options import GraphOptions
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import GraphTask, Node
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class DrawnSelection:
    """The selection that is drawn, with its title and notes about the rest."""

    selection: Selection
    title: str
    notes: tuple[str, ...]


def scope_of(trace: Trace, options: GraphOptions) -> DrawnSelection:
    """The selected part; of several steps the one with the worst finding, else the first."""
    return _scope(trace, options, trace.table(Node)["step"], BACKWARD)


def scope_of_calls(trace: Trace, options: GraphOptions, steps_of: Ids) -> DrawnSelection:
    """The same for forward calls; `steps_of` are their steps."""
    return _scope(trace, options, steps_of, FORWARD)


BACKWARD, FORWARD = "backward graph", "forward graph"


def _scope(trace: Trace, options: GraphOptions, steps_of: Ids, graph: str) -> DrawnSelection:
    selection = options.selection
    notes: tuple[str, ...] = ()
    named = (selection.step, selection.backward, selection.around)
    if not options.everything and named == (None, None, None):
        most = options.most if graph == BACKWARD else len(steps_of)  # a backward is no part of it
        selection, notes = _first_part(trace, selection, steps_of, most)
    if selection.step is not None and trace.once(RankOf).numbers:
        notes = (*notes, f"step {selection.step}{on_ranks(trace)}; use --rank N for one of them")
    parts = _title(trace, selection)
    said = len(parts) < 2 or graph == FORWARD
    return DrawnSelection(selection, " · ".join([*parts, graph] if said else parts), notes)


def _first_part(
    trace: Trace, selection: Selection, steps_of: Ids, limit: int
) -> tuple[Selection, tuple[str, ...]]:
    known = steps(trace)
    with_some = set(distinct(steps_of).tolist())
    drawable = [step.number for step in known if step.id in with_some]
    if len(known) > 1 and drawable:
        first, why = _where_to_begin(trace, drawable)
        which = f"step {first} of {len({step.number for step in known})}{why}"
        note = f"{which}; use --step N for another one, --all for all of them"
        return replace(selection, step=first), (note,)
    tasks = trace.table(GraphTask)
    if len(tasks) > 1 and len(steps_of) > limit:
        note = f"backward 0 of {len(tasks)}; use --task N for another one, --all for all of them"
        return replace(selection, backward=0), (note,)
    return selection, ()


def _where_to_begin(trace: Trace, drawable: Sequence[int]) -> tuple[int, str]:
    """The step of the worst finding, if it can be drawn; else the first one. And the reason."""
    worst = trace.once(worst_in_a_step)
    if worst is None or worst.steps[0] not in drawable:
        return drawable[0], ""
    rank = f" on rank {worst.ranks[0]}" if len(worst.ranks) == 1 else ""
    return worst.steps[0], f", with {worst.rule} {worst.slug}{rank}"


def _title(trace: Trace, selection: Selection) -> list[str]:
    script = str(trace.meta.get("script", ""))
    parts = [PurePath(script).name] if script else []
    if selection.step is not None:
        parts.append(f"step {selection.step}{on_ranks(trace)}")
    if selection.backward is not None:
        task = backward_numbered(trace, selection.backward)
        called = site_of(trace, task.stack)
        of = trace.once(RankOf).words(GraphTask.TABLE, task.id)
        at = f" at {called}" if called.place else ""
        parts.append(f"{of}backward {selection.backward}{at}")
    if selection.path_to is not None:
        parts.append(f"path to {_called(trace, selection.path_to)}")
    if selection.critical:
        parts.append("critical path")
    if selection.around is not None:
        name = _called(trace, selection.around)
        hops = "1 hop" if selection.hops == 1 else f"{selection.hops} hops"
        parts.append(f"{hops} around {name}")
    return parts


def _called(trace: Trace, name: str) -> str:
    """The name as given; the name of the node for an id."""
    if name.isdigit() and trace.table(Node).has(int(name)):
        return node_names(trace).title(int(name))
    return name
