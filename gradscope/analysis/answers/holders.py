"""What keeps a tensor, or the graph of a node or step, in memory, as far as recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from gradscope.analysis.answers.meant import (
    FINDING,
    near_names,
    node_meant,
    tensor_meant,
)
from gradscope.analysis.graph.memory import held
from gradscope.analysis.graph.selection import adjacency, reach
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done, Origins
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.errors import UnknownNameError
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, KeptAct, Module, Node, Saved, StepAct, Storage, Tensor
from gradscope.trace.trace import Trace

STEP = re.compile(r"step[ :=#]?(\d{1,18})")
TYPED = re.compile(r"(node|tensor) (.+)")
NAMED = re.compile(r"(?:name )?[`.]*([^`]+)`?")


class Subject(StrEnum):
    """The kind of thing that was asked about."""

    TENSOR = "tensor"
    NODE = "node"
    STEP = "step"
    NAME = "name"  # in the program


@dataclass(frozen=True, slots=True)
class Saver:
    """Nodes of one name and line that saved the tensor, or a value of the graph."""

    name: str
    slot: str
    site: Site
    values: int
    bytes: int  # of those that are still held
    backwards: tuple[int, ...]  # that released them, by number
    freed: int  # number freed with their node or storage
    left: int  # number still held, as far as was recorded


@dataclass(frozen=True, slots=True)
class Top:
    """A node that no other leads to: a reference to its result keeps its graph alive."""

    node: int
    site: Site
    tensors: tuple[int, ...]  # tensors with this grad_fn


@dataclass(frozen=True, slots=True)
class KeptName:
    """A name in the program that held graphs of earlier steps, when it was last checked."""

    name: str
    container: str
    attribute: bool
    tensors: int
    steps: int
    of: int  # number of steps until then; 0 for an evaluation
    stored: tuple[Site, ...]

    @property
    def all_steps(self) -> bool:
        return self.steps >= self.of > 0


@dataclass(frozen=True, slots=True)
class Holders:
    """What holds a thing, and what it holds."""

    kind: Subject
    id: int  # for a step, its number; for a name, the act that recorded it
    title: str
    site: Site
    bytes: int  # for a tensor, of its storage; for a graph, what it still saves
    nodes: int  # number of nodes: before it, or in it
    savers: tuple[Saver, ...]
    tops: tuple[Top, ...]
    names: tuple[KeptName, ...]
    module: str
    optimizers: tuple[tuple[str, Site], ...]
    sharing: tuple[int, ...]  # other tensors of its storage
    freed: int  # when its storage ended; NONE if that was not seen
    there: int  # nodes still alive at the end; NONE: not recorded
    recorded: bool  # whether saved values were recorded

    @property
    def left(self) -> int:
        return sum(each.left for each in self.savers)


def holders(trace: Trace, wanted: str) -> Holders:
    """What holds a parameter, a tensor, a node, "step 3", or a name that held graphs."""
    kind, id = _meant(trace, wanted)
    told = _Told(trace)
    asked = {
        Subject.TENSOR: told.tensor, Subject.NODE: told.node,
        Subject.STEP: told.step, Subject.NAME: told.name,
    }  # fmt: skip
    return asked[kind](id)


def _meant(trace: Trace, wanted: str) -> tuple[Subject, int]:
    if match := STEP.fullmatch(wanted.strip()):
        step_ids(trace, int(match[1]))  # it raises where there is none
        return Subject.STEP, int(match[1])
    if match := TYPED.fullmatch(wanted.strip()):
        find = node_meant if match[1] == "node" else tensor_meant
        return Subject(match[1]), find(trace, match[2])
    keepers = [(act.facts.name, act) for act in trace.once(Acts).of(KeptAct)]
    name = NAMED.fullmatch(wanted.strip())
    said = [act for called, act in keepers if name and called == name[1]]
    if said and wanted.startswith(("name ", "`", ".")):
        return Subject.NAME, said[-1].id
    problems: list[UnknownNameError] = []
    order = (
        (Subject.NODE, Subject.TENSOR)
        if wanted.startswith(FINDING)
        else (Subject.TENSOR, Subject.NODE)
    )
    for kind in order:
        try:
            return kind, (tensor_meant if kind is Subject.TENSOR else node_meant)(trace, wanted)
        except UnknownNameError as error:
            problems.append(error)
    for problem in problems:
        if "choose one" in str(problem) or wanted.startswith(FINDING):
            raise problem
    if said:
        return Subject.NAME, said[-1].id
    known = (*trace.table(Tensor).texts("name"), *trace.table(Node).texts("name"))
    known += tuple(called for called, _ in keepers)
    near = near_names(wanted, known)
    hint = f"did you mean {', '.join(near)}?" if near else "name a parameter, a node, or 'step 3'"
    raise UnknownNameError(f"no parameter, tensor, node or step is called {wanted!r}: {hint}")


class _Told:
    """Searches saved values, and nodes that lead to a tensor."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._held = held(trace)
        self._numbers = backward_numbers(trace)
        self._recorded = trace.meta.get("level") != "graph"

    def tensor(self, id: int) -> Holders:
        trace, row = self._trace, self._trace.table(Tensor).row(id)
        training, acts = trace.once(Training), trace.once(Acts)
        saved, storages = trace.table(Saved), trace.table(Storage)
        mine = saved["tensor"] == id
        if row.storage != NONE:
            mine |= self._held.holder == row.storage
        nodes = self._made_by(row)
        behind = self._behind(nodes)
        tensors = trace.table(Tensor)
        shares = tensors["id"][(tensors["storage"] == row.storage) & (tensors["id"] != id)]
        has_storage = row.storage != NONE and storages.has(row.storage)
        module = training.parameters.get(id, NONE)
        origin = trace.once(Origins).of(id) if module == NONE else None
        return Holders(
            kind=Subject.TENSOR,
            id=id,
            title=training.title(id) if row.leaf else row.name or f"tensor {id}",
            site=self._site(nodes) if origin is None else origin.site,
            bytes=storages.row(row.storage).bytes if has_storage else row.bytes,
            nodes=len(behind),
            savers=tuple(self._savers(np.flatnonzero(mine))),
            tops=(),
            names=tuple(self._names(nodes)),
            module=self._module(module),
            optimizers=tuple(
                (each.type, acts.site(each.built)) for each in acts.optimizers if id in each.tensors
            ),
            sharing=tuple(shares.tolist()) if row.storage != NONE else (),
            freed=storages.row(row.storage).freed if has_storage else NONE,
            there=self._there(behind),
            recorded=self._recorded,
        )

    def node(self, id: int) -> Holders:
        row = self._trace.table(Node).row(id)
        behind = self._behind([id])
        rows = np.flatnonzero(np.isin(self._trace.table(Saved)["node"], [id]))
        site = site_of(self._trace, row.stack)
        return self._graph(Subject.NODE, id, row.name, site, rows, [id], behind)

    def step(self, number: int) -> Holders:
        nodes, saved = self._trace.table(Node), self._trace.table(Saved)
        made = nodes["id"][np.isin(nodes["step"], step_ids(self._trace, number))]
        rows = np.flatnonzero(np.isin(saved["node"], made))
        title = f"step {number}"
        return self._graph(Subject.STEP, number, title, Site(), rows, made.tolist(), made.tolist())

    def name(self, act: int) -> Holders:
        """What a name in the program held, from one event that recorded it."""
        facts = self._trace.once(Acts).by_id[act].facts
        title = facts.name if isinstance(facts, KeptAct) else ""
        told = self._graph(Subject.NAME, act, title, Site(), np.array([], np.int64), [], [])
        return replace(
            told, names=tuple(each for each in self._held_by_name() if each.name == title)
        )

    def _graph(
        self,
        kind: Subject,
        id: int,
        title: str,
        site: Site,
        rows: Ids,
        nodes: list[int],
        behind: list[int],
    ) -> Holders:
        left = rows[self._held.end[rows] == NONE]
        _, first = np.unique(self._held.holder[left], return_index=True)
        return Holders(
            kind=kind,
            id=id,
            title=title,
            site=site,
            bytes=int(self._held.bytes[left[first]].sum()),
            nodes=len(behind),
            savers=tuple(self._savers(rows)),
            tops=tuple(self._tops(nodes)),
            names=tuple(self._names(nodes)),
            module="",
            optimizers=(),
            sharing=(),
            freed=NONE,
            there=self._there(behind),
            recorded=self._recorded,
        )

    def _there(self, nodes: list[int]) -> int:
        """How many of these nodes were alive when the recording ended, without leaves."""
        if not self._trace.sees("node.died"):
            return NONE
        table = self._trace.table(Node)
        places = table.positions(np.array(nodes, np.int64))
        left = places[places != NONE]
        left = left[table["died"][left] == NONE]
        names = table["name"][left].tolist()
        return sum(self._trace.text(name) != ACCUMULATE_GRAD for name in names)

    # -- saved values -----------------------------------------------------------------------------

    def _savers(self, rows: Ids) -> Iterator[Saver]:
        """Saved values by the name and line of their nodes, those still held first."""
        saved, nodes = self._trace.table(Saved), self._trace.table(Node)
        found: dict[tuple[str, str, str], list[int]] = {}
        sites: dict[tuple[str, str, str], Site] = {}
        for place, row in zip(rows.tolist(), saved.take(rows), strict=True):
            node = nodes.row(row.node) if nodes.has(row.node) else None
            site = site_of(self._trace, node.stack) if node else Site()
            key = (node.name if node else "?", row.slot, site.place)
            found.setdefault(key, []).append(place)
            sites[key] = site
        told = [self._saver(key, sites[key], np.array(places)) for key, places in found.items()]
        yield from sorted(told, key=lambda each: (-each.left, -each.bytes))

    def _saver(self, key: tuple[str, str, str], site: Site, rows: Ids) -> Saver:
        saved = self._trace.table(Saved)
        ended = self._held.end[rows] != NONE
        released = saved["released"][rows] != NONE
        tasks = distinct(saved["task"][rows][released]).tolist()
        numbers = sorted(self._numbers[task] for task in tasks if task in self._numbers)
        _, first = np.unique(self._held.holder[rows][~ended], return_index=True)
        bytes = int(self._held.bytes[rows][~ended][first].sum())
        freed, left = int((ended & ~released).sum()), int((~ended).sum())
        return Saver(key[0], key[1], site, len(rows), bytes, tuple(numbers), freed, left)

    # Nodes that lead to it -----------------------------------------------------------------------

    def _made_by(self, row: Tensor) -> list[int]:
        """The node of the call that made a tensor, whose graph the tensor holds."""
        nodes = self._trace.table(Node)
        if row.op == NONE or row.leaf:
            return []
        found: list[int] = nodes["id"][nodes["op"] == row.op].tolist()
        return found

    def _behind(self, nodes: Iterable[int]) -> list[int]:
        forward, _ = adjacency(self._trace)
        return reach(nodes, forward)

    def _tops(self, nodes: list[int]) -> Iterator[Top]:
        _, backward = adjacency(self._trace)
        table = self._trace.table(Node)
        for node in reach(nodes, backward):
            if not backward.of(node) and table.has(node):
                row = table.row(node)
                yield Top(node, site_of(self._trace, row.stack), row.inputs)

    def _names(self, nodes: list[int]) -> Iterator[KeptName]:
        """Names that held graphs after these nodes were created; the last record of each."""
        if nodes:
            table = self._trace.table(Node)
            yield from self._held_by_name(min(table.row(node).t for node in nodes))

    def _held_by_name(self, since: int = 0) -> Iterator[KeptName]:
        acts = self._trace.once(Acts)
        last: dict[tuple[object, ...], Done[KeptAct]] = {}
        for act in acts.of(KeptAct):
            facts = act.facts
            if act.t >= since:
                last[facts.name, facts.container, act.stack] = act
        ends = np.sort(np.array([act.t for act in acts.of(StepAct)], np.int64))
        for act in last.values():
            facts = act.facts
            evaluated = facts.when == "evaluation"
            so_far = 0 if evaluated else int(np.searchsorted(ends, act.t))
            yield KeptName(
                facts.name, str(facts.container or ""),
                facts.attribute, int(facts.many or 0),
                int(facts.steps or 0), so_far,
                tuple(site for site in acts.sites(act) if site.place),
            )  # fmt: skip

    def _module(self, id: int) -> str:
        modules = self._trace.table(Module)
        if not modules.has(id):
            return ""
        return module_names(self._trace)[id] or modules.row(id).type

    def _site(self, nodes: list[int]) -> Site:
        table = self._trace.table(Node)
        return site_of(self._trace, table.row(nodes[0]).stack) if nodes else Site()
