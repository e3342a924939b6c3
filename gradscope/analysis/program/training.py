"""Training: parameters, the optimizers that hold them, and the gradients they received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.graph.reached import reached_leaves
from gradscope.analysis.identity.aliases import also
from gradscope.analysis.identity.leaves import fill_leaves, leaf
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import Ids, as_written
from gradscope.analysis.program.acts import Acts, Optimizer, parameters
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Dependency,
    GraphTask,
    Module,
    Node,
    RanAct,
    RequiresGradAct,
    Tensor,
    Version,
)
from gradscope.trace.trace import Trace

FEW = 2
"""Number of parameters that are named separately."""


class Training:
    """The training in a trace, as far as it was recorded."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.acts = trace.once(Acts)

    @cached_property
    def stepped(self) -> tuple[Optimizer, ...]:
        """Optimizers that have stepped, with their parameters."""
        return tuple(each for each in self.acts.optimizers if each.steps)

    @cached_property
    def held(self) -> frozenset[int]:
        """All tensors that some optimizer holds, even if it has not stepped."""
        return frozenset(each for one in self.acts.optimizers for each in one.tensors)

    @cached_property
    def parameters(self) -> Mapping[int, int]:
        """Parameters of modules that have run, with their modules."""
        return parameters(self.trace)

    @cached_property
    def reached(self) -> frozenset[int]:
        """Leaves that received a gradient in a backward."""
        return frozenset(reached_leaves(self.trace))

    @cached_property
    def behind_a_loss(self) -> frozenset[int]:
        """Leaves that a backward counted, so that they are part of a loss.

        This includes leaves that received no gradient because a node passed on an undefined one.
        """
        nodes = self.trace.table(Node)
        counted = nodes.positions(distinct(self.trace.table(Dependency)["node"]))
        counted = counted[counted != NONE]
        rows = nodes.take(counted[fill_leaves(self.trace)[counted]])
        return frozenset(row.inputs[0] for row in rows if row.inputs)

    def sharing_memory(self, tensors: Iterable[int]) -> set[int]:
        """The leaves that share memory with one of these, including these.

        FSDP computes with one flat parameter, and the optimizer holds views of its memory; or with
        leaves into which it gathers parameters.
        """
        tensors, table = set(tensors), self.trace.table(Tensor)
        storages, ids = table["storage"], table["id"]
        theirs = storages[np.isin(ids, list(tensors)) & (storages != NONE)]
        found = tensors | set(ids[np.isin(storages, theirs) & table["leaf"]].tolist())
        sharding = self.trace.once(Sharding)
        found |= {one for each in found for one in sharding.leaves.get(each, ())}
        return sharding.with_parameters(found)

    @cached_property
    def sharded(self) -> set[int]:
        """Tensors of optimizers of which FSDP uses whole copies: leaves in no module."""
        if not any(module.type.startswith("FSDP") for module in self.trace.rows(Module)):
            return set()
        tensors, copies = self.trace.table(Tensor), self.reached - self.held
        shapes = {tensors.row(each).shape for each in copies - set(self.parameters)}
        return {each for each in self.held if tensors.row(each).shape in shapes}

    def parameters_in(self, module: int) -> set[int]:
        """The parameters of a module and of all modules inside it."""
        inside = {module}
        for row in self.trace.rows(Module):  # a module comes after its parent
            if row.parent in inside:
                inside.add(row.id)
        return {tensor for tensor, of in self.parameters.items() if of in inside}

    def is_most_of_a_module(self, tensors: Iterable[int]) -> bool:
        """Whether these include more than half of a module's own parameters, or a leaf of none.

        A bias alone is not a part that fails to learn: a loss may consist of differences, as that
        of a critic, or of slopes, as that of a Hamiltonian, and then the last bias has no effect.
        """
        modules, many = self.trace.table(Module), Counter[int]()
        many.update(self.parameters.get(tensor, NONE) for tensor in tensors)
        own = {each: len(modules.row(each).parameters) for each in many if modules.has(each)}
        return any(2 * times > own.get(module, 0) for module, times in many.items())

    @cached_property
    def times_reached(self) -> Mapping[int, int]:
        """The number of backwards in which each leaf received a gradient."""
        events = self.trace.table(Accumulate)
        tensors, times = np.unique(events["tensor"], return_counts=True)
        found = dict(zip(tensors.tolist(), times.tolist(), strict=True))
        for tensor, row in self.trace.once(Sharding).gathered.items():
            for each in row.parameters:
                found[each] = max(found.get(each, 0), found.get(tensor, 0))
        return found

    def reached_in(self, tasks: set[int]) -> set[int]:
        """Leaves that received a gradient in these backwards."""
        events = self.trace.table(Accumulate)
        inside = np.isin(events["task"], list(tasks))
        found = events["tensor"][inside].tolist()
        return self.trace.once(Sharding).with_parameters(found)

    @cached_property
    def written(self) -> frozenset[int]:
        """Tensors that were written in place after the first backward."""
        versions, begins = self.trace.table(Version), self.trace.table(GraphTask)["begin"]
        later = versions["t"] > begins.min() if len(begins) else np.zeros(len(versions), bool)
        return frozenset(versions["tensor"][later].tolist())

    @cached_property
    def roots(self) -> frozenset[int]:
        """Leaves at which a backward began."""
        nodes, roots = self.trace.table(Node), self.trace.table(GraphTask).ragged("roots")
        if not len(nodes):
            return frozenset()
        places = nodes.positions(distinct(roots.values))
        rows = nodes.take(places[self._fills_a_leaf(places)])
        return frozenset(row.inputs[0] for row in rows if row.inputs)

    @cached_property
    def begun_at_leaves(self) -> list[int]:
        """The positions of backwards that began at leaves only."""
        nodes, tasks = self.trace.table(Node), self.trace.table(GraphTask)
        roots = tasks.ragged("roots")
        if not len(nodes):
            return []
        places = nodes.positions(roots.values)
        at_leaf = self._fills_a_leaf(places)
        many, others = (
            np.bincount(roots.owners[chosen], minlength=len(tasks))
            for chosen in (at_leaf, (places != NONE) & ~at_leaf)
        )
        return np.flatnonzero((many > 0) & (others == 0)).tolist()

    def _fills_a_leaf(self, places: Ids) -> NDArray[np.bool_]:
        """Whether the nodes at these positions accumulate into `.grad`; False for NONE."""
        found = np.zeros(len(places), bool)
        found[places != NONE] = fill_leaves(self.trace)[places[places != NONE]]
        return found

    @cached_property
    def frozen(self) -> frozenset[int]:
        """Tensors whose last recorded requires_grad is False."""
        table = self.trace.table(Tensor)
        asks = dict(zip(table["id"].tolist(), table["requires_grad"].tolist(), strict=True))
        for act in self.acts.of(RequiresGradAct):
            for tensor in act.tensors:
                asks[tensor] = act.facts.to
        return frozenset(tensor for tensor, does in asks.items() if not does)

    @cached_property
    def thawed(self) -> frozenset[int]:
        """Tensors that required a gradient at some time."""
        table = self.trace.table(Tensor)
        asked = set(table["id"][table["requires_grad"]].tolist())
        for act in self.acts.of(RequiresGradAct):
            asked.update(act.tensors if act.facts.to else ())
        return frozenset(asked)

    @cached_property
    def backwards(self) -> int:
        return len(self.trace.table(GraphTask))

    def root_of(self, tensor: int) -> int:
        """The outermost module that contains the module of a parameter."""
        found = self.parameters[tensor]
        above = [row.id for row in self.trace.table(Module).chain(found, "parent")]
        return above[-1] if above else found

    def named(self, tensors: Iterable[int]) -> str:
        """Their names in messages: "fc.weight and fc.bias", "encoder.* (12 parameters)"."""
        several = as_written(self.trace.table(Tensor), tensors)
        if len(several) <= FEW:
            return " and ".join(map(self.title, several))
        titles = [self.name(each) for each in several]
        others = {self.name(each) for each in self.parameters} - {*titles}
        pattern = pattern_of(titles, others)
        if pattern:
            return pattern
        return f"{titles[0]}, {titles[1]} and {len(titles) - FEW} more"

    def models_of(self, tensors: Iterable[int]) -> str:
        """The models of these tensors, by type and the line of the first call.

        As in "the Net called at train.py:32"; "" if not known.
        """
        roots = dict.fromkeys(self.root_of(each) for each in tensors if each in self.parameters)
        modules = self.trace.table(Module)
        ran = {act.module: act for act in self.acts.of(RanAct)[::-1]}
        said = [
            f"the {modules.row(root).type} first called{at(self.acts.site(ran[root]))}"
            for root in sorted(roots)
            if modules.has(root) and root in ran
        ]
        return " and ".join(said[:FEW])

    def told_apart(self, some: Iterable[int], held: Iterable[int]) -> str:
        """The models of these and of an optimizer's parameters, if their names are equal."""
        some, held = {*some}, {*held}
        if not {*map(self.title, some)} & {*map(self.title, held)}:
            return ""
        theirs, its = self.models_of(some), self.models_of(held)
        if not theirs or not its or theirs == its:
            return ""
        return f": they belong to {theirs}, and those of the same names that it holds to {its}"

    def title(self, tensor: int) -> str:
        """The name in messages, with further paths: "head.weight (also embed.weight)"."""
        return f"{self.name(tensor)}{also(self.trace, tensor)}"

    def name(self, tensor: int) -> str:
        found = leaf(self.trace, tensor)
        if found is None:
            return "a tensor"
        if found.name:
            return found.name
        shape = "×".join(map(str, found.shape)) or "scalar"
        return f"a leaf ({shape})"


def pattern_of(names: list[str], others: Collection[str]) -> str:
    """A pattern of these names and their number: "blocks.*.ln2.* (6 parameters)".

    If all patterns also match some of the others: "blocks.* (6 of 36 parameters)". "" if the names
    begin differently.
    """
    paths = [name.split(".") for name in names]
    common = _common(paths)
    if not common:
        return ""
    begins, places = f"{'.'.join(common)}.", {len(path) for path in paths}
    inside = [each for each in others if each.startswith(begins)]
    if inside and len(places) == 1:
        parts = [
            each.pop() if len(each) == 1 else "*" for each in map(set, zip(*paths, strict=True))
        ]
        if not any(_matches(each.split("."), parts) for each in inside):
            return f"{'.'.join(parts)} ({len(names)} parameters)"
    of_all = f" of {len(names) + len(inside)}" if inside else ""
    return f"{begins}* ({len(names)}{of_all} parameters)"


def _matches(path: list[str], parts: list[str]) -> bool:
    return len(path) == len(parts) and all(
        part in ("*", each) for each, part in zip(path, parts, strict=True)
    )


def _common(paths: list[list[str]]) -> list[str]:
    """The parts with which all paths begin, without their last ones."""
    together: list[str] = []
    for parts in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(parts)) > 1:
            break
        together.append(parts[0])
    return together
