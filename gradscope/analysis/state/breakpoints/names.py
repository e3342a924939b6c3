"""Looks up names and patterns of names, with `*` and `?`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import find_nodes, made_in_module, node_names
from gradscope.analysis.identity.sites import site
from gradscope.analysis.program.modules import module_names
from gradscope.errors import UnknownNameError
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Accumulate, Node, Tensor

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.trace.trace import Trace


FEW = 3


def is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def matching(wanted: str, names: Iterable[str], what: str) -> set[str]:
    """The names that match; without any, an error suggests similar ones."""
    known = {*names}
    if not wanted:
        return known
    found = {name for name in known if fnmatchcase(name, wanted)}
    if not found:
        near = difflib.get_close_matches(wanted, sorted(known), n=3, cutoff=0.5)
        some = ", ".join(near or sorted(known)[:3])
        hint = f"did you mean {some}?" if near else f"it has {some}" if some else "it has none"
        raise UnknownNameError(f"this trace has no {what} {wanted!r}: {hint}")
    return found


def nodes(trace: Trace, wanted: str) -> Ids:
    """The nodes with an id, name, pattern of names, leaf, module or line."""
    table = trace.table(Node)
    ids = np.asarray(table["id"], np.int64)
    if not wanted:
        return ids
    if not is_pattern(wanted):
        return np.array(find_nodes(trace, wanted), np.int64)
    if "#" in wanted:
        unique = node_names(trace)
        found = [node for node in ids.tolist() if fnmatchcase(unique.of(node), wanted)]
        matching(wanted, [unique.of(node) for node in found], "node")
        return np.array(found, np.int64)
    names = np.asarray(table["name"])
    texts = {text: trace.text(text) for text in distinct(names).tolist()}
    meant = matching(wanted, texts.values(), "node")
    return ids[np.isin(names, [text for text, name in texts.items() if name in meant])]


def modules(trace: Trace, wanted: str) -> Ids:
    """The modules of these paths, and those inside them."""
    names = {id: name for id, name in module_names(trace).items() if name or not wanted}
    if not wanted:
        return np.array([*names], np.int64)
    inside = wanted if is_pattern(wanted) else f"{wanted}.*"
    found = [id for id, name in names.items() if fnmatchcase(name, wanted) or
             fnmatchcase(name, inside)]  # fmt: skip
    if not found and not is_pattern(wanted):  # the end of a path
        known = np.array([*names], np.int64)
        found = known[made_in_module(trace, known, wanted)].tolist()
    if not found:
        matching(wanted, names.values(), "module")
    return np.array(found, np.int64)


def stacks(trace: Trace, wanted: str, recorded: Ids) -> Ids:
    """The recorded stacks that end at a line, `train.py:41`."""
    places = {stack: site(trace, stack) for stack in distinct(recorded).tolist() if stack != NONE}
    meant = f"/{wanted.lstrip('/')}"
    found = [stack for stack, place in places.items() if f"/{place}".endswith(meant)]
    if not found and wanted:
        raise UnknownNameError(_no_such_line(wanted, sorted({*places.values()})))
    return np.array(found if wanted else [*places], np.int64)


def _no_such_line(wanted: str, known: Sequence[str]) -> str:
    file, _, line = wanted.rpartition(":")
    its = [place for place in known if f"/{place.rpartition(':')[0]}".endswith(f"/{wanted}")]
    if its:
        first = min(int(place.rpartition(":")[2]) for place in its)
        return f"a line is written FILE:NUMBER, as in {wanted}:{first}"
    same = [place for place in known if f"/{place.rpartition(':')[0]}".endswith(f"/{file}")]
    if line.isdecimal() and same:
        lines = sorted({int(place.rpartition(":")[2]) for place in same})
        near = sorted(sorted(lines, key=lambda each: abs(each - int(line)))[:3])
        said = ", ".join(map(str, near))
        return f"nothing was recorded at {wanted}; the nearest lines of {file} are {said}"
    files = sorted({place.rpartition(":")[0] for place in known})
    return f"nothing was recorded at {wanted}: the trace has {', '.join(files[:3]) or 'no lines'}"


def leaves(trace: Trace, wanted: str) -> Ids:
    """The leaves in whose `.grad` a gradient arrived, by name."""
    came = np.asarray(trace.table(Accumulate)["tensor"], np.int64)
    try:
        return tensors(trace, wanted, came)
    except UnknownNameError:
        table = trace.table(Tensor)
        asking = np.asarray(table["leaf"], bool) & np.asarray(table["requires_grad"], bool)
        try:
            meant = tensors(trace, wanted, np.asarray(table["id"])[asking])
        except UnknownNameError:
            meant = np.zeros(0, np.int64)
        if not len(meant):
            raise
    called = [*dict.fromkeys(found.name for id in meant.tolist() if (found := leaf(trace, id)))]
    some = ", ".join(called[:FEW]) + f" and {len(called) - FEW:,} more" * (len(called) > FEW)
    raise UnknownNameError(f"no gradient arrives at {some}; why {called[0]} explains it")


def tensors(trace: Trace, wanted: str, among: Ids) -> Ids:
    """The tensors with a name or id."""
    table = trace.table(Tensor)
    ids = distinct(among)
    if not wanted:
        return ids
    if wanted.isdecimal() and len(wanted) < 19 and table.has(int(wanted)):
        return np.array([int(wanted)], np.int64)
    names = {id: found.name for id in ids.tolist() if (found := leaf(trace, id)) and found.name}
    meant = matching(wanted, names.values(), "tensor")
    return np.array([id for id, name in names.items() if name in meant], np.int64)
