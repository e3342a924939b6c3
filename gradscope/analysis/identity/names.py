"""Names of nodes, and look-up of nodes by name."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD, leaf_of
from gradscope.analysis.identity.sites import site, site_of_row
from gradscope.analysis.lookups import Ids, counts, ranks
from gradscope.analysis.program.modules import module_names
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import NONE, Module, Node
from gradscope.trace.trace import Trace

MOST_NAMES = 2_000
"""Largest number of names that are compared with a misspelt one."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """The unique name of every node: "MulBackward0#2" is the second one created."""

    trace: Trace
    ordinals: Ids  # from 1, among the nodes of the same name, in the order of the trace
    counts: Ids  # number of nodes with the name

    def of(self, node: int) -> str:
        """The unique name of a node. A name that only one node has is unchanged."""
        nodes = self.trace.table(Node)
        if node == NONE or not nodes.has(node):
            return f"node {node}"
        position = nodes.index(node)
        name: str = self.trace.text(int(nodes["name"][position]))
        if self.counts[position] == 1:
            return name
        return f"{name}#{self.ordinals[position]}"

    def title(self, node: int) -> str:
        """The unique name, or "AccumulateGrad (w)" for a leaf with a name."""
        if not self.trace.table(Node).has(node):
            return self.of(node)
        leaf = leaf_of(self.trace, self.trace.table(Node).row(node))
        return f"{ACCUMULATE_GRAD} ({leaf.name})" if leaf and leaf.name else self.of(node)


def node_names(trace: Trace) -> NodeNames:
    """Number the nodes of each name."""
    nodes, whole = trace.table(Node), trace.all_nodes
    names = np.asarray(nodes["name"] if whole is None else whole.names, dtype=np.int64)
    ordinals, many = ranks(names) + 1, counts(names)
    if whole is not None:
        own = np.searchsorted(whole.ids, nodes.array("id"))
        ordinals, many = ordinals[own], many[own]
    return NodeNames(trace, ordinals, many)


def find_nodes(trace: Trace, wanted: str) -> tuple[int, ...]:
    """The nodes with an id, unique name, name, leaf, module path or source line.

    A unique suffix of a path or line is enough. A number is only an id: a module may be called 3.

    Raises UnknownNameError with similar names if there is none.
    """
    if not len(trace.table(Node)):
        raise UnknownNameError(f"no node is called {wanted!r}: this trace holds no nodes")
    others = () if _is_number(wanted) else _BY_NAME
    for find in (_by_id, *others):
        found = find(trace, wanted)
        if found:
            return found
    raise UnknownNameError(_nothing_found(trace, wanted))


def _by_id(trace: Trace, wanted: str) -> tuple[int, ...]:
    if not _is_number(wanted):
        return ()
    return (int(wanted),) if trace.table(Node).has(int(wanted)) else ()


def _by_unique_name(trace: Trace, wanted: str) -> tuple[int, ...]:
    name, hash_mark, ordinal = wanted.rpartition("#")
    if not hash_mark or not _is_number(ordinal) or int(ordinal) == 0:
        return ()
    return _by_name(trace, name)[int(ordinal) - 1 : int(ordinal)]


def _is_number(text: str) -> bool:
    """Whether the text is a possible id."""
    return text.isascii() and text.isdigit() and len(text) < 19


def _by_name(trace: Trace, wanted: str) -> tuple[int, ...]:
    nodes = trace.table(Node)
    texts = {text for text in set(nodes["name"].tolist()) if trace.text(text) == wanted}
    return _ids(trace, np.isin(nodes["name"], sorted(texts)))


def _by_leaf(trace: Trace, wanted: str) -> tuple[int, ...]:
    return tuple(node for node, name in _leaf_names(trace) if name == wanted)


def _by_module(trace: Trace, wanted: str) -> tuple[int, ...]:
    return _ids(trace, made_in_module(trace, trace.table(Node)["module"], wanted))


def node_made_at(trace: Trace, node: int) -> str:
    """As in "MulBackward0#2 (created at train.py:41)"."""
    made = site_of_row(trace, Node, node)
    return f"{node_names(trace).title(node)}{f' (created at {made})' if made.place else ''}"


def made_in_module(trace: Trace, modules: Ids, wanted: str) -> np.ndarray:
    """A mask of the modules with this path or path suffix, and those inside them."""
    names = module_names(trace)
    called = {module.id: (module.path, names[module.id]) for module in trace.rows(Module)}
    inside = _inside(called, wanted)
    ending = f".{wanted.removeprefix('…')}"
    if not inside and ending.strip("."):
        meant = {paths for paths in called.values() if any(path.endswith(ending) for path in paths)}
        inside = _inside(called, meant.pop()[1]) if len(meant) == 1 else []
    return np.isin(modules, inside)


def _inside(called: Mapping[int, Sequence[str]], wanted: str) -> list[int]:
    around = f"{wanted}."
    return [id for id, paths in called.items() if any(f"{p}.".startswith(around) for p in paths)]


def _by_site(trace: Trace, wanted: str) -> tuple[int, ...]:
    return _ids(trace, made_on_line(trace, trace.table(Node)["stack"], wanted))


_BY_NAME: tuple[Callable[[Trace, str], tuple[int, ...]], ...] = (
    _by_unique_name,
    _by_name,
    _by_leaf,
    _by_module,
    _by_site,
)
"""What a text other than an id may name."""


def made_on_line(trace: Trace, stacks: Ids, wanted: str) -> np.ndarray:
    """A mask of the stacks that end at this line, as in "train.py:41"."""
    meant = [
        stack
        for stack in set(stacks.tolist() if ":" in wanted else ())
        if stack != NONE and f"/{site(trace, stack)}".endswith(f"/{wanted.lstrip('/')}")
    ]
    return np.isin(stacks, sorted(meant))


def _ids(trace: Trace, mask: np.ndarray) -> tuple[int, ...]:
    return tuple(trace.table(Node)["id"][mask].tolist())


def _leaf_names(trace: Trace) -> list[tuple[int, str]]:
    nodes = trace.table(Node)
    is_leaf = [trace.text(text) == ACCUMULATE_GRAD for text in nodes["name"].tolist()]
    rows = nodes.take(np.flatnonzero(is_leaf))
    found = [(row.id, leaf_of(trace, row)) for row in rows]
    return [(node, leaf.name) for node, leaf in found if leaf and leaf.name]


def _nothing_found(trace: Trace, wanted: str) -> str:
    ids = trace.table(Node)["id"]
    if _is_number(wanted):
        return (
            f"no node has the id {wanted}: the nodes of this trace are {ids.min()} to {ids.max()}"
        )
    close = _near(trace, wanted)
    hint = (
        f"did you mean {', '.join(close)}?"
        if close
        else "pictures, the page and `gradscope timeline` show the names"
    )
    return f"no node, leaf, module or source line is called {wanted!r}: {hint}"


def _near(trace: Trace, wanted: str) -> list[str]:
    nodes = trace.table(Node)
    return near(trace, wanted, trace.texts(nodes["name"]), [name for _, name in _leaf_names(trace)])


def near(trace: Trace, wanted: str, names: Sequence[str], of_tensors: Iterable[str]) -> list[str]:
    """Similar names among these, those of tensors and those of modules."""
    of_name = Counter(names)
    known = [
        *of_name,
        *of_tensors,
        *(module.path for module in trace.rows(Module) if module.path),
    ]
    folded = {name.casefold(): name for name in known[:MOST_NAMES]}
    plain = wanted.rpartition("#")[0] or wanted
    close = difflib.get_close_matches(plain.casefold(), list(folded), n=3, cutoff=0.5)
    inside = [name for key, name in folded.items() if plain.casefold() in key][:3]
    found = list(dict.fromkeys(folded[key] for key in close)) or inside
    return [f"{name}#1 … #{of_name[name]}" if of_name[name] > 1 else name for name in found]
