"""Differences of two graphs: nodes and edges, names and lines, saved values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.likeness.aspects import (
    Aspect,
    Both,
    Difference,
    DifferenceList,
    Section,
    Side,
)
from gradscope.analysis.likeness.match import OTHERS
from gradscope.analysis.likeness.parts import ROLES, Columns
from gradscope.analysis.likeness.who import KINDS, NODE, NOWHERE
from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import without
from gradscope.trace.schema import NONE

Bools = NDArray[np.bool_]
PLACES = 2
"""Differences are ordered by nodes of the first trace; those of the second lie between."""


def structure(both: Both) -> Section:
    """Nodes, edges, shapes and backwards."""
    found = DifferenceList()
    mine, _ = both.nodes
    one, other = both.one, both.other
    _missing(both, found)
    _column(both, found, TAKES)
    _column(both, found, MADE_IN)
    _edges(both, found)
    _tasks(both, found)
    counted = f"{len(one.nodes['name']):,} and {len(other.nodes['name']):,} nodes"
    if len(mine) == len(one.nodes["name"]) == len(other.nodes["name"]):
        counted = f"{len(mine):,} nodes"
    edges, tasks = len(one.edges["node"]), len(one.tasks["site"])
    return found.section(Aspect.STRUCTURE, f"{counted}, {edges:,} edges, {tasks:,} backwards")


def _missing(both: Both, found: DifferenceList) -> None:
    """Nodes that only one trace has, each with the next node that both have."""
    mine, theirs = both.nodes
    sizes = [len(part.nodes["name"]) for part in (both.one, both.other)]
    by_theirs = np.argsort(theirs)
    only_one = without(np.arange(sizes[0]), mine)
    only_other = without(np.arange(sizes[1]), theirs)
    next_in_one = np.append(mine[by_theirs], sizes[0])
    places = next_in_one[np.searchsorted(theirs[by_theirs], only_other)] * PLACES - 1

    def nothing(place: int, following: Ids) -> Side:
        if not len(following):
            return Side("nothing more")
        return both.side(place, KINDS * int(following[0]) + NODE, "nothing, then {}")

    def of_one(place: int) -> Difference:
        node = place // PLACES
        following = theirs[np.searchsorted(mine, node) :]
        side = both.side(0, KINDS * node + NODE)
        what = "a node that only the first has"
        return Difference(what, side, nothing(1, following), step=both.step(node))

    def of_other(place: int) -> Difference:
        node = int(only_other[places == place][0])
        following = mine[by_theirs][np.searchsorted(theirs[by_theirs], node) :]
        side = both.side(1, KINDS * node + NODE)
        return Difference("a node that only the second has", nothing(0, following), side)

    found.add("nodes that only the first has", only_one * PLACES, of_one)
    found.add("nodes that only the second has", places, of_other)


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """A column of nodes, with texts for differences of several nodes and of one."""

    name: str
    all: str
    one: str
    says: str = ""
    number: bool = False


TAKES = NodeColumn(
    "takes",
    "nodes receive different gradients",
    "a node receives a different gradient",
    " receives {}",
)
MADE_IN = NodeColumn(
    "made_in", "nodes are created in another backward",
        "a node is created in another backward",
    " was created in backward {}", number=True,
)  # fmt: skip
ARGUMENTS = NodeColumn(
    "arguments", "nodes have different arguments", "a node has different arguments",
    " was created with {}",
)  # fmt: skip
NAMES = (
    NodeColumn("name", "nodes have a different name", "a node has a different name"),
    NodeColumn(
        "module", "nodes are created in another module", "a node is created in another module"
    ),
    NodeColumn(
        "line", "nodes are created by a line that changed",
        "a node is created by a line that changed",
    ),
    NodeColumn(
        "step", "nodes are created in another step", "a node is created in another step",
        " was created in step {}", number=True,
    ),
)  # fmt: skip


def _column(both: Both, found: DifferenceList, column: NodeColumn) -> None:
    mine, theirs = both.nodes
    one, other = both.one.nodes[column.name][mine], both.other.nodes[column.name][theirs]
    if column is MADE_IN:
        other = np.append(both.match.tasks, NONE)[other]
    texts = both.one.who.words.texts

    def side(place: int, node: int, value: int) -> Side:
        said = str(value) if column.number else texts[value] or "nothing"
        text = "{}" + column.says.replace("{}", "none" if said == str(NONE) else said)
        return both.side(place, KINDS * node + NODE, text)

    def describe(place: int) -> Difference:
        at = int(np.searchsorted(mine, place // PLACES))
        first = side(0, int(mine[at]), int(one[at]))
        second = side(1, int(theirs[at]), int(other[at]))
        return Difference(column.one, first, second, step=both.step(int(mine[at])))

    differ = one != other
    if column is ARGUMENTS:
        differ &= _read(both)
    found.add(column.all, mine[differ] * PLACES, describe)


def _edges(both: Both, found: DifferenceList) -> None:
    """Edges of matched nodes whose ends are known in both traces."""
    mine, theirs = both.nodes
    one, other = both.one.edges, both.other.edges
    split = len(one["index"])
    index = np.unique(np.concatenate([one["index"], other["index"]]), return_inverse=True)[1]
    wide = 1 + int(index.max(initial=0))
    keys = one["node"] * wide + index[:split]
    node = both.match.nodes[other["node"]]
    here = np.flatnonzero(node != NONE)
    other_keys = node[here] * wide + index[split:][here]
    order = np.argsort(other_keys, kind="stable")
    here, other_keys = here[order], other_keys[order]
    at = np.searchsorted(keys, other_keys)
    there = at < len(keys)
    there[there] = keys[at[there]] == other_keys[there]
    at, here = at[there], here[there]
    target = both.match.codes(other["target"][here])
    own = one["target"][at]
    of_both = np.append(np.isin(np.arange(len(both.one.nodes["name"])), mine), False)
    to_node = (own >= 0) & (own % KINDS == NODE)
    only_mine = to_node & ~of_both[np.where(to_node, own // KINDS, 0)]
    differ = (target != own) & (target != OTHERS) & ~only_mine
    same_node = (target == own) & (own >= 0)
    differ |= same_node & (other["input_nr"][here] != one["input_nr"][at])
    at, here = at[differ], here[differ]

    def describe(place: int) -> Difference:
        which = int(np.flatnonzero(one["node"][at] == place // PLACES)[0])
        a, b = int(at[which]), int(here[which])
        return Difference(
            "an edge leads to a different node",
            both.side(0, KINDS * int(one["node"][a]) + NODE, _edge(both, 0, one, a)),
            both.side(1, KINDS * int(other["node"][b]) + NODE, _edge(both, 1, other, b)),
            step=both.step(int(one["node"][a])),
        )

    found.add("edges lead to a different node", one["node"][at] * PLACES, describe)
    many = [
        np.bincount(part.edges["node"], minlength=len(part.nodes["name"]))
        for part in (both.one, both.other)
    ]
    fewer = many[0][mine] != many[1][theirs]

    def count(place: int) -> Difference:
        which = int(np.searchsorted(mine, place // PLACES))
        sides = [
            both.side(
                side, KINDS * int(pair[which]) + NODE, f"{{}} sends {of[pair[which]]} gradients"
            )
            for side, (pair, of) in enumerate(zip((mine, theirs), many, strict=True))
        ]
        return Difference("a node sends more gradients", sides[0], sides[1])

    found.add("nodes send more or fewer gradients", mine[fewer] * PLACES, count)


def _edge(both: Both, place: int, edges: Columns, at: int) -> str:
    target, nr = int(edges["target"][at]), int(edges["input_nr"][at])
    to = both.title(place, target) + (f", input {nr}" if target > NOWHERE else "")
    return f"{{}} sends gradient {int(edges['index'][at])} to {to}"


TASK_FLAGS = ("keep_graph", "create_graph", "accumulate_grad", "depth", "error")


def _tasks(both: Both, found: DifferenceList) -> None:
    """Backwards that only one trace has, then differences in their calls and arguments."""
    mine, theirs = both.tasks
    end = len(both.one.nodes["name"]) * PLACES  # after all nodes
    for place, (part, pairs, which) in enumerate(
        ((both.one, mine, "first"), (both.other, theirs, "second"))
    ):
        only = without(np.arange(len(part.tasks["site"])), pairs)

        def describe(at: int, place: int = place, which: str = which) -> Difference:
            side = both.task_side(place, at - end, f"backward {at - end}")
            sides = (side, Side()) if place == 0 else (Side(), side)
            return Difference(f"a backward that only the {which} has", *sides)

        found.add(f"backwards that only the {which} has", only + end, describe)
    differ = np.zeros(len(mine), bool)
    for name in TASK_FLAGS:
        differ |= both.one.tasks[name][mine] != both.other.tasks[name][theirs]
    asked = [_asked(both, place) for place in (0, 1)]
    for at, (a, b) in enumerate(zip(mine.tolist(), theirs.tolist(), strict=True)):
        differ[at] |= asked[0].get(a) != asked[1].get(b)

    def told(at: int) -> Difference:
        a = at - end
        b = int(theirs[np.searchsorted(mine, a)])
        return Difference(
            "a backward is called differently",
            both.task_side(0, a, _called(both, 0, a)),
            both.task_side(1, b, _called(both, 1, b)),
            when=a,
        )

    found.add("backwards are called differently", mine[differ] + end, told)


def _asked(both: Both, place: int) -> dict[int, list[tuple[int, int]]]:
    """The nodes that each backward refers to and both traces have, by role."""
    asked = (both.one, both.other)[place].asked
    codes = both.match.codes(asked["node"]) if place else asked["node"]
    mine = np.append(both.match.nodes, NONE) if place else both.nodes[0]
    made: dict[int, list[tuple[int, int]]] = {}
    rows = zip(asked["task"].tolist(), asked["role"].tolist(), codes.tolist(), strict=True)
    known = set(mine.tolist())
    for task, role, code in rows:
        if code != OTHERS and (code < 0 or code % KINDS != NODE or code // KINDS in known):
            made.setdefault(task, []).append((role, code))
    return {task: sorted(cells) for task, cells in made.items()}


def _called(both: Both, place: int, number: int) -> str:
    part = (both.one, both.other)[place]
    asked = part.asked
    row = {name: int(column[number]) for name, column in part.tasks.items()}
    said = [f"backward {number} {both.lines[place].task(row)}"]
    for role, name in enumerate(ROLES):
        codes = asked["node"][(asked["task"] == number) & (asked["role"] == role)].tolist()
        shown = [both.title(place, code) for code in codes[:3]] + ["…"] * (len(codes) > 3)
        said += [f"{name} {', '.join(shown)}"] * bool(codes)
    return ", ".join(said)


# -- names --------------------------------------------------------------------------------------


def names(both: Both) -> Section:
    """Compare names of nodes, modules and lines; moved lines do not differ."""
    found = DifferenceList()
    for column in NAMES:
        _column(both, found, column)
    mine, _ = both.nodes
    return found.section(Aspect.NAMES, f"{len(mine):,} nodes")


def arguments(both: Both) -> Section:
    """Compare arguments of calls besides tensors, where both nodes have them."""
    found = DifferenceList()
    _column(both, found, ARGUMENTS)
    return found.section(Aspect.ARGUMENTS, f"{np.count_nonzero(_read(both)):,} nodes")


def _read(both: Both) -> Bools:
    mine, theirs = both.nodes
    one, other = both.one.nodes["arguments"], both.other.nodes["arguments"]
    return np.minimum(one[mine], other[theirs]) > 0


def moved(both: Both) -> int:
    """The number of lines with nodes that only moved."""
    mine, theirs = both.nodes
    one, other = both.one.nodes, both.other.nodes
    same = one["line"][mine] == other["line"][theirs]
    elsewhere = same & (one["site"][mine] != other["site"][theirs])
    return len(np.unique(one["site"][mine][elsewhere]))


# -- saved values -------------------------------------------------------------------------------


def saved(both: Both) -> Section:
    """Compare saved values: slots, shapes, versions."""
    found = DifferenceList()
    mine, theirs = both.nodes
    kept = [_kept(both, place) for place in (0, 1)]
    one, other = kept[0][mine], kept[1][theirs]
    texts = both.one.who.words.texts

    def side(place: int, node: int, word: int, others: int) -> Side:
        apart = set(texts[others].split(AND))
        only = [each for each in texts[word].split(AND) if each and each not in apart]
        said = ", ".join(only) or ("no more" if word else "nothing")
        return both.side(place, KINDS * node + NODE, f"{{}} saves {said}")

    def describe(place: int) -> Difference:
        at = int(np.searchsorted(mine, place // PLACES))
        a, b = int(one[at]), int(other[at])
        return Difference(
            "a node saves something different",
            side(0, int(mine[at]), a, b),
            side(1, int(theirs[at]), b, a),
            step=both.step(int(mine[at])),
        )

    found.add("nodes save something different", mine[one != other] * PLACES, describe)
    of_both = np.isin(both.one.saved["node"], mine)
    return found.section(Aspect.SAVED, f"{np.count_nonzero(of_both):,} values")


AND = "; "
"""Separator of the saved values of a node."""


def _kept(both: Both, place: int) -> Ids:
    """For each node a text of all its saved values."""
    part = (both.one, both.other)[place]
    columns = part.saved
    rows = zip(*(columns[name].tolist() for name in columns), strict=True)
    said: dict[int, list[str]] = {}
    for cells in rows:
        row = dict(zip(columns, cells, strict=True))
        said.setdefault(row["node"], []).append(both.lines[place].kept(row))
    made = np.zeros(len(part.nodes["name"]), np.int64)
    for node, kept in said.items():
        made[node] = part.who.words.number(AND.join(kept))
    return made
