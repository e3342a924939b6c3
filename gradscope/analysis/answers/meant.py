"""Finds the node, tensor or call that a user names by id, name or finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from gradscope.analysis.findings import Finding
from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.aliases import other_paths
from gradscope.analysis.identity.found_at import nodes_of, rows_of
from gradscope.analysis.identity.leaves import leaf, made_as
from gradscope.analysis.identity.names import find_nodes, made_on_line, node_names
from gradscope.analysis.program.acts import Origins
from gradscope.analysis.program.training import Training
from gradscope.analysis.report import inspect
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import Node, Op, Tensor
from gradscope.trace.trace import Trace

FINDING = "#"
"""Prefix of the id of a finding in reports: #b4ce."""
SHOWN = 6
"""Number of ids listed when several things have the same name."""


def node_meant(trace: Trace, wanted: str) -> int:
    """The id of a node named by id, unique name or finding."""
    if wanted.startswith(FINDING):
        return _of_finding(trace, wanted, Node.TABLE)
    found = find_nodes(trace, wanted)
    if len(found) > 1:
        names = node_names(trace)
        shown = ", ".join(f"{names.title(node)} ({node})" for node in found[:SHOWN])
        more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        raise UnknownNameError(f"{wanted!r} matches {len(found)} nodes; choose one: {shown}{more}")
    return found[0]


def tensor_meant(trace: Trace, wanted: str) -> int:
    """The id of a tensor named by id, unique name, variable or finding."""
    if wanted.startswith(FINDING):
        return _of_finding(trace, wanted, Tensor.TABLE)
    table = trace.table(Tensor)
    if _is_id(wanted) and table.has(int(wanted)):
        return int(wanted)
    names = dict(zip(table["id"].tolist(), table.texts("name"), strict=True))
    if wanted not in names.values():
        for id in table["id"][table["leaf"] & table["requires_grad"]].tolist():
            if not names[id] and (known := leaf(trace, id)):
                names[id] = known.name
    if wanted not in names.values():
        tied = [id for id, paths in other_paths(trace).items() if wanted in paths]
        names |= dict.fromkeys(tied or made_as(trace, wanted), wanted)
    return _named(trace, Tensor, names, wanted)


def op_meant(trace: Trace, wanted: str) -> int:
    """The id of a forward call named by id, unique name or finding."""
    if wanted.startswith(FINDING):
        return _of_finding(trace, wanted, Op.TABLE)
    table = trace.table(Op)
    if _is_id(wanted) and table.has(int(wanted)):
        return int(wanted)
    if (numbered := _call_numbered(trace, wanted)) is not None:
        return numbered
    names = dict(zip(table["id"].tolist(), table.texts("name"), strict=True))
    return _named(trace, Op, names, wanted)


def _call_numbered(trace: Trace, wanted: str) -> int | None:
    """The forward call that pages and pictures show as "linear#2"; None if there is none."""
    if "#" not in wanted:
        return None
    calls = trace.once(ForwardCalls)
    places = (place for place in range(len(calls)) if calls.of(place) == wanted)
    place = next(places, None)
    return None if place is None else int(calls.id[place])


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _named(trace: Trace, kind: type[Tensor | Op], names: Mapping[int, str], wanted: str) -> int:
    noun = kind.TABLE
    named = [id for id, name in names.items() if wanted in (name, name.partition(".")[0])]
    if kind is Tensor and wanted not in names.values():
        named = [id for id, name in names.items() if name.startswith(f"{wanted}.")]
        _not_a_module(wanted, [names[id] for id in named])
    if kind is Tensor and len(named) > 1:  # prefer the leaf that requires grad
        table = trace.table(Tensor)
        asking = [id for id in named if table["requires_grad"][table.index(id)]]
        named = asking if len(asking) == 1 else named
    if len(named) == 1:
        return named[0]
    if named:
        shown = ", ".join(f"{id}{_of_model(trace, kind, id)}" for id in named[:SHOWN])
        shown += ", …" * (len(named) > SHOWN)
        raise UnknownNameError(f"{len(named)} {noun}s are called {wanted!r}; choose one: {shown}")
    near = near_names(wanted, names.values())
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    if not hint and kind is Tensor and not _is_id(wanted):
        hint = _parameters(trace, names)
    raise UnknownNameError(f"this trace has no {noun} {wanted!r}{hint or f': {_ids(trace, kind)}'}")


def _not_a_module(wanted: str, inside: Sequence[str]) -> None:
    """Raises for the name of a module with several parameters, and names them."""
    choices = list(dict.fromkeys(inside))
    if len(choices) < 2:
        return
    listed = " or ".join(choices) if len(choices) == 2 else _first_of(choices)
    raise UnknownNameError(f"{wanted} is a module; choose {listed}")


def _parameters(trace: Trace, names: Mapping[int, str]) -> str:
    """What the leaves that require grad are called; "" if none has a name."""
    table = trace.table(Tensor)
    asking = table["id"][table["leaf"] & table["requires_grad"]].tolist()
    known = list(dict.fromkeys(names[id] for id in asking if names[id]))
    return f"; its parameters are {_first_of(known)}" if known else ""


def _first_of(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _ids(trace: Trace, kind: type[Tensor | Op]) -> str:
    """Which ids a table has."""
    ids, noun = trace.table(kind)["id"], kind.TABLE
    if not len(ids):
        return f"it holds no {noun}s"
    gaps = ", with gaps" * bool(len(ids) <= ids.max() - ids.min())
    return f"its {noun}s have the ids {ids.min()} to {ids.max()}{gaps}"


def _of_model(trace: Trace, kind: type[Tensor | Op], id: int) -> str:
    """ " (of the Net first called at train.py:32)", of a parameter; or where it was created."""
    if kind is not Tensor:
        return ""
    said, origin = trace.once(Training).models_of([id]), trace.once(Origins).of(id)
    return f" (of {said})" if said else "" if origin is None else f" (by {origin.words})"


def near_names(wanted: str, names: Iterable[str]) -> list[str]:
    """Names similar to one that does not exist, the most similar first."""
    known = sorted({name for name in names if name})
    ends = [name for name in known if wanted and name.endswith(f".{wanted}")]
    return list(dict.fromkeys([*ends, *get_close_matches(wanted, known, 3)]))[:3]


# Findings --------------------------------------------------------------------------------------


def findings_meant(trace: Trace, wanted: str) -> tuple[Finding, ...]:
    """The findings whose ids start with this text."""
    digits = wanted.removeprefix(FINDING)
    every = inspect(trace).findings
    found = tuple(each for each in every if digits and each.id.startswith(digits))
    if not found:
        known = ", ".join(f"{FINDING}{each.id[:4]} ({each.slug})" for each in every[:SHOWN])
        has = f"its findings are {known}" if known else "it has no findings"
        raise UnknownNameError(f"this trace has no finding {wanted!r}: {has}")
    return found


def with_finding(trace: Trace, selection: Selection, *, calls: bool = False) -> Selection:
    """The selection with a finding replaced by one of its nodes, or else by its line.

    `calls`: whether calls are selected, not nodes.
    """
    wanted = selection.around
    if wanted is None or not wanted.startswith(FINDING):
        return selection
    found = findings_meant(trace, wanted)
    rows = [row for each in found for row in each.evidence]
    node = None if calls else next(nodes_of(trace, rows), None)
    if node is not None:
        return replace(selection, around=str(node))
    place = next((each.site.place for each in found if each.site.place), "")
    if not calls and not made_on_line(trace, trace.table(Node)["stack"], place).any():
        where = f", and its line {place} created none" if place else ""
        raise UnknownNameError(f"finding {wanted} refers to no node{where}")
    return replace(selection, around=place)


def _of_finding(trace: Trace, wanted: str, table: str) -> int:
    """The first row of a table that a finding, or a row it refers to, names."""
    for finding in findings_meant(trace, wanted):
        for evidence in finding.evidence:
            for id in rows_of(trace, evidence, table):
                if trace.tables[table].has(id):
                    return id
    raise UnknownNameError(f"finding {wanted} refers to no {table}")
