"""Changes of nodes that both runs have: their arguments, and the sizes of their gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.likeness.aspects import Both
from gradscope.analysis.likeness.changes.change import Change, ChangeKind, counted, short
from gradscope.analysis.likeness.who import KINDS, NODE
from gradscope.analysis.program.arguments import Given, arguments_of, in_words
from gradscope.trace.schema import Node


def arguments_changed(both: Both, *, sized: bool) -> Iterator[Change]:
    """Arguments of matched nodes that differ. `sized`: those about sizes follow from leaves."""
    mine, theirs = both.nodes
    sides = both.one.nodes, both.other.nodes
    given = sides[0]["arguments"][mine], sides[1]["arguments"][theirs]
    same_name = sides[0]["name"][mine] == sides[1]["name"][theirs]
    differ = np.flatnonzero((given[0] != given[1]) & (np.minimum(*given) > 0) & same_name)
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for a, b in zip(mine[differ].tolist(), theirs[differ].tolist(), strict=True):
        was, now = _given(both, 0, a), _given(both, 1, b)
        keys = [
            key
            for key in {**was, **now}
            if was.get(key) != now.get(key) and not (sized and _is_size(was.get(key), now.get(key)))
        ]
        if keys:
            said = ", ".join(f"{key} {_said(was, key)} → {_said(now, key)}" for key in keys)
            name = both.one.who.words.texts[int(sides[0]["name"][a])]
            found.setdefault((said, name), []).append((a, b))
    for (said, name), pairs in found.items():
        per_step: dict[int, int] = {}
        for _, b in pairs:
            step = int(sides[1]["step"][b])
            per_step[step] = per_step.get(step, 0) + 1
        one, other = (
            [part.who.id(KINDS * pair[place] + NODE) for pair in pairs]
            for place, part in enumerate((both.one, both.other))
        )
        sites = [
            both.site(part, KINDS * pairs[0][place] + NODE)
            for place, part in enumerate((both.one, both.other))
        ]
        yield Change(
            ChangeKind.ARGUMENT, f"{said} of {short(name)}", max(per_step.values()),
            sites[0], sites[1], at_least=True, gone=tuple(one), nodes=tuple(other),
        )  # fmt: skip


def _given(both: Both, place: int, number: int) -> Given:
    who = (both.one, both.other)[place].who
    row = who.trace.table(Node).at(int(who.nodes[number]))
    return dict(arguments_of(row.arguments))


def _said(given: Given, key: str) -> str:
    return in_words({key: given[key]}).partition("=")[2] if key in given else "none"


def _is_size(one: object, other: object) -> bool:
    return isinstance(one, list) and isinstance(other, list)


# -- modules ---------------------------------------------------------------------------------------


def modules_renamed(both: Both) -> Iterator[Change]:
    """Modules that have another path and otherwise the same nodes."""
    mine, theirs = both.nodes
    one, other = both.one.nodes["module"], both.other.nodes["module"]
    differ = np.flatnonzero(one[mine] != other[theirs])
    texts = both.one.who.words.texts
    known = [{texts[word] for word in np.unique(each).tolist()} for each in (one, other)]
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    paths: dict[tuple[str, str], set[str]] = {}
    for a, b in zip(mine[differ].tolist(), theirs[differ].tolist(), strict=True):
        was, now = _apart(texts[int(one[a])], texts[int(other[b])])
        if not (was and now) or was in known[1] or now in known[0]:
            continue
        if f".{was}".endswith(f".{now}") or f".{now}".endswith(f".{was}"):
            continue  # only the name of the model before it differs: one trace has several
        (around, _, old), (home, _, new) = was.rpartition("."), now.rpartition(".")
        key = (old, new) if around == home else (was, now)
        found.setdefault(key, []).append((a, b))
        paths.setdefault(key, set()).add(was)
    sides = both.one, both.other
    for (was, now), pairs in found.items():
        sites = [both.site(part, KINDS * pairs[0][at] + NODE) for at, part in enumerate(sides)]
        ids = [
            tuple(part.who.id(KINDS * pair[at] + NODE) for pair in pairs)
            for at, part in enumerate(sides)
        ]
        words = f"`{was}` is now called `{now}`"
        places = len(paths[was, now])
        yield Change(
            ChangeKind.RENAMED, words, places, sites[0], sites[1], gone=ids[0], nodes=ids[1]
        )


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two paths up to the first name that differs, without what follows in both."""
    was, now = one.split("."), other.split(".")
    while len(was) > 1 and len(now) > 1 and was[-1] == now[-1]:
        was.pop()
        now.pop()
    return ".".join(was), ".".join(now)


# -- sizes --------------------------------------------------------------------------------------

META = re.compile(r"\(([^)]*)\) ?([^,\s]*) ?([^,\s]*)")
"""A size, a dtype and a device other than the CPU, as in "(8, 4) float32 sim:0"."""


def sizes_changed(both: Both) -> Iterator[Change]:
    """Gradients with another size or dtype between nodes that both have."""
    mine, theirs = both.nodes
    one, other = both.one.nodes, both.other.nodes
    names = one["name"][mine] == other["name"][theirs]
    takes = one["takes"][mine], other["takes"][theirs]
    differ = np.flatnonzero((takes[0] != takes[1]) & (np.minimum(*takes) > 0) & names)
    if not len(differ):
        return
    texts = both.one.who.words.texts
    pairs = {(texts[int(takes[0][at])], texts[int(takes[1][at])]) for at in differ.tolist()}
    words = _said_sizes(pairs)
    if words is None:
        at = int(differ[0])
        before, now = texts[int(takes[0][at])], texts[int(takes[1][at])]
        words = f"gradients of another kind, first {before} → {now}"
    first = int(differ[0])
    sites = [
        both.site(part, KINDS * int(pair[first]) + NODE)
        for part, pair in ((both.one, mine), (both.other, theirs))
    ]
    ids = tuple(both.other.who.id(KINDS * int(node) + NODE) for node in theirs[differ].tolist())
    steps_ = np.unique(other["step"][theirs[differ]], return_counts=True)[1]
    words += f", {counted(int(steps_.max()), 'node')} in a step"
    yield Change(ChangeKind.SIZE, words, 0, sites[0], sites[1], nodes=ids)


def _said_sizes(pairs: set[tuple[str, str]]) -> str | None:
    """As in "first dimension 32 → 64 of gradients", if that is all that differs."""
    dims: set[tuple[int, str, str]] = set()
    others: set[tuple[str, str]] = set()
    for before, now in pairs:
        was, is_ = META.findall(before), META.findall(now)
        if len(was) != len(is_):
            return None
        for (one, *one_rest), (other, *other_rest) in zip(was, is_, strict=True):
            others |= {
                (x or "cpu", y or "cpu")
                for x, y in zip(one_rest, other_rest, strict=True)
                if x != y
            }
            sizes = [re.findall(r"-?\d+", text) for text in (one, other)]
            if len(sizes[0]) != len(sizes[1]):
                return None
            dims |= {(at, x, y) for at, (x, y) in enumerate(zip(*sizes, strict=True)) if x != y}
    if len(dims) == 1 and not others:
        ((place, x, y),) = dims
        what = "first dimension" if place == 0 else f"dimension {place}"
        return f"{what} {x} → {y} of gradients"
    if len(others) == 1 and not dims:
        ((x, y),) = others
        return f"{x} → {y} of gradients"
    return None
