"""Identifies nodes, leaves, backwards and lines independently of the trace.

# Note [Codes]
Ids depend on the recorder. So the nodes that a backward reached are numbered in the order of their
creation, leaves in the order in which edges lead to them, and roots above several in the order of
backwards. A code holds such a number and which of the three it is. AccumulateGrad nodes stand for
their leaf: when they are created, and how many there are for one leaf, depends on the engine.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.identity.backwards import backwards
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD, leaf_of
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.arguments import arguments_of, in_words
from gradscope.analysis.program.modules import module_names
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Dependency, Device, Edge, GraphTask, Node, Push, Tensor
from gradscope.trace.trace import Trace

NODE, LEAF, ROOT = 0, 1, 2
KINDS = 3
NOWHERE = -1
STRANGER = -2
"""The code of a node that no backward reached."""

GRAPH_ROOT = "GraphRoot"


class WordNumbers:
    """Texts as numbers, the same in both traces."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}
        self.texts = [""]

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return known

    def numbers(self, ids: Ids, texts: list[str]) -> Ids:
        """For each id the number of its text; `texts` are those of the distinct ids, in order."""
        made = np.array([self.number(text) for text in texts], np.int64)
        return made[np.searchsorted(distinct(ids), ids)] if len(ids) else ids.astype(np.int64)


class Who:
    """The nodes, leaves and backwards of one trace. See Note [Codes]."""

    def __init__(self, trace: Trace, words: WordNumbers) -> None:
        self.trace, self.words = trace, words
        table = trace.table(Node)
        self._table = table
        names = distinct(table["name"])
        called = dict(zip(trace.texts(names), names.tolist(), strict=True))
        self._is_leaf = table["name"] == called.get(ACCUMULATE_GRAD, NONE)
        self._is_root = table["name"] == called.get(GRAPH_ROOT, NONE)
        self.tasks = backwards(trace)
        self._task_numbers = {task.id: number for number, task in enumerate(self.tasks)}
        self.nodes = self._nodes()
        """The positions of the numbered nodes in their table."""
        self._codes = np.full(len(table), STRANGER, np.int64)
        self._codes[self.nodes] = KINDS * np.arange(len(self.nodes)) + NODE
        self.roots = self._in_order(np.flatnonzero(self._is_root))
        self._codes[self.roots] = KINDS * np.arange(len(self.roots)) + ROOT
        self.leaves = self._number_leaves()
        """The position of the first AccumulateGrad of each leaf."""

    def _in_order(self, positions: Ids) -> Ids:
        ids: Ids = self._table["id"][positions]
        return positions[np.argsort(ids, kind="stable")]

    def _nodes(self) -> Ids:
        """The ordinary nodes that a backward reached, in the order of creation."""
        edges, table = self.trace.table(Edge), self._table
        source, target = table.positions(edges["node"]), table.positions(edges["next"])
        inside = (source != NONE) & (target != NONE)
        order = np.argsort(source[inside], kind="stable")
        rising, targets = source[inside][order], target[inside][order].tolist()
        starts = np.searchsorted(rising, np.arange(len(table) + 1)).tolist()
        roots = self.trace.table(GraphTask).ragged("roots").values
        pending = [place for place in table.positions(roots).tolist() if place != NONE]
        seen = bytearray(len(table))
        while pending:
            place = pending.pop()
            if not seen[place]:
                seen[place] = 1
                pending += targets[starts[place] : starts[place + 1]]
        reached = np.frombuffer(bytes(seen), np.uint8).astype(bool)
        return self._in_order(np.flatnonzero(reached & ~self._is_leaf & ~self._is_root))

    def _number_leaves(self) -> Ids:
        positions = np.flatnonzero(self._is_leaf)
        if not len(positions):
            return positions
        lists = self._table.ragged("inputs").take(positions)
        ids = self._table["id"][positions]
        tensors = -2 - ids  # unknown ones count as separate tensors
        known = lists.lengths > 0
        tensors[known] = lists.values[lists.offsets[:-1][known]]
        _, leaf = np.unique(tensors, return_inverse=True)
        of = np.full(len(self._table), NONE, np.int64)
        of[positions] = leaf
        mentioned = of[self._mentioned()]
        met, first = np.unique(mentioned[mentioned != NONE], return_index=True)
        ranks = np.full(int(leaf.max()) + 1, NONE, np.int64)
        ranks[met[np.argsort(first, kind="stable")]] = np.arange(len(met))
        rank = ranks[leaf]
        numbered = positions[rank != NONE]
        self._codes[numbered] = KINDS * rank[rank != NONE] + LEAF
        _, where = np.unique(rank[rank != NONE], return_index=True)
        first_of: Ids = numbered[where]
        return first_of

    def _mentioned(self) -> Ids:
        """The places of nodes that edges lead to, by node and edge; then of roots."""
        edges = self.trace.table(Edge)
        source = self.codes(edges["node"])
        target = self._table.positions(edges["next"])
        inside = (source >= 0) & (target != NONE)
        order = np.lexsort((edges["index"][inside], source[inside]))
        asked = [np.array(task.roots, np.int64) for task in self.tasks]
        asked_for = self._table.positions(np.concatenate([np.zeros(0, np.int64), *asked]))
        return np.concatenate([target[inside][order], asked_for[asked_for != NONE]])

    # -- meanings of ids ------------------------------------------------------------------------

    def codes(self, ids: Ids) -> Ids:
        """The codes of nodes: NOWHERE for NONE, STRANGER for those without a number."""
        places = self._table.positions(ids)
        found = np.append(self._codes, STRANGER)[places]
        return np.where(np.asarray(ids) == NONE, NOWHERE, found)

    def position(self, code: int) -> int:
        """The position of the node with this code in its table."""
        number, kind = divmod(code, KINDS)
        return int((self.nodes, self.leaves, self.roots)[kind][number])

    def id(self, code: int) -> int:
        """The id of the node with this code, or NONE."""
        return NONE if code < 0 else int(self._table["id"][self.position(code)])

    def ids(self, kind: int) -> Ids:
        """The ids of all nodes of a kind, by number."""
        found: Ids = self._table["id"][(self.nodes, self.leaves, self.roots)[kind]]
        return found

    def met_by_tasks(self) -> Ids:
        """`pairs` of tasks with `inputs=`, and the nodes that each counted or pushed."""
        tables = [self.trace.table(kind) for kind in (Dependency, Push)]
        tasks = np.concatenate([table["task"] for table in tables])
        nodes = np.concatenate([table["node"] for table in tables])
        asking = np.isin(tasks, [task.id for task in self.tasks if task.inputs])
        return distinct(self.pairs(self.task_numbers(tasks[asking]), self.codes(nodes[asking])))

    def pairs(self, tasks: Ids, codes: Ids) -> Ids:
        """A number for each pair of a task and a node."""
        return tasks * (KINDS * (len(self._table) + 1)) + codes

    def task_numbers(self, ids: Ids) -> Ids:
        """The number of each graph task, or NONE."""
        rising = distinct(np.asarray(ids))
        numbers = [self._task_numbers.get(task, NONE) for task in rising.tolist()]
        return np.array(numbers, np.int64)[np.searchsorted(rising, ids)] if len(ids) else ids

    def names(self, ids: Ids) -> Ids:
        """Words of interned texts."""
        return self.words.numbers(ids, self.trace.texts(distinct(ids)))

    def heads(self, ids: Ids) -> Ids:
        """Words of the first lines of interned texts; the rest depends on the engine."""
        texts = self.trace.texts(distinct(ids))
        return self.words.numbers(ids, [text.partition("\n")[0] for text in texts])

    def arguments(self, ids: Ids) -> Ids:
        """Words of arguments besides tensors; 3.0 and 3 are the same."""
        texts = self.trace.texts(distinct(ids))
        return self.words.numbers(ids, [in_words(arguments_of(text)) for text in texts])

    def are(self, ids: Ids, texts: Collection[str]) -> NDArray[np.bool_]:
        """Whether interned texts are among these."""
        found = distinct(ids)
        chosen = np.array([text in texts for text in self.trace.texts(found)], bool)
        return np.isin(ids, found[chosen])

    def sites(self, stacks: Ids) -> Ids:
        """Words of lines, `train.py:41`."""
        found = [site_of(self.trace, stack).place for stack in distinct(stacks).tolist()]
        return self.words.numbers(stacks, found)

    def lines(self, stacks: Ids) -> Ids:
        """Words of the texts of lines or, where unknown, of the lines."""
        found = [site_of(self.trace, stack) for stack in distinct(stacks).tolist()]
        return self.words.numbers(stacks, [site.text or site.place for site in found])

    def modules(self, ids: Ids) -> Ids:
        """Words of modules' paths."""
        names = self.trace.once(module_names)
        return self.words.numbers(ids, [names.get(module, "") for module in distinct(ids).tolist()])

    def steps(self, ids: Ids) -> Ids:
        numbers, rising = self.trace.once(step_numbers), distinct(ids)
        found = np.array([numbers.get(step, NONE) for step in rising.tolist()], np.int64)
        return found[np.searchsorted(rising, ids)] if len(ids) else ids

    def metas(self, ids: Ids) -> Ids:
        """Words of tensors' shapes, dtypes and devices."""
        rising = distinct(np.asarray(ids))
        tensors = self.trace.table(Tensor)
        places = tensors.positions(rising)
        known = places[places != NONE]
        shapes = tensors.ragged("shape").take(known).tuples()
        dtypes, devices = self.trace.texts(tensors["dtype"][known]), tensors["device"][known]
        told = iter(
            f"{shape} {dtype}{self._devices.get(device, '')}"
            for shape, dtype, device in zip(shapes, dtypes, devices.tolist(), strict=True)
        )
        return self.words.numbers(ids, ["" if p == NONE else next(told) for p in places.tolist()])

    @cached_property
    def _devices(self) -> dict[int, str]:
        """The text for each device; empty for the CPU."""
        return {row.id: f" {row.name}" for row in self.trace.rows(Device) if row.name != "cpu"}

    def leaf_name(self, number: int) -> str:
        """The name of a leaf in brackets, or its shape if it has no name."""
        found = leaf_of(self.trace, self._table.at(int(self.leaves[number])))
        if found is None or found.tensor == NONE:
            return ""
        return f" ({found.name or list(found.shape)})"
