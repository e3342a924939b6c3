"""Who trains what: parameters, the optimizers that hold them, and the gradients that came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from gradscope.analysis.graph.reached import reached_leaves
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD, leaf
from gradscope.analysis.program.acts import Acts, Optimizer, parameters
from gradscope.trace.schema import NONE, Deed, GraphTask, Module, Node, Tensor
from gradscope.trace.trace import Trace

FEW = 2
"""So many parameters are named one by one."""


class Training:
    """A recorded training, as far as the trace holds it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.acts = trace.once(Acts)

    @cached_property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """Those that have stepped, with what they hold."""
        return tuple(each for each in self.acts.optimizers if each.steps)

    @cached_property
    def held(self) -> frozenset[int]:
        """All tensors that some optimizer holds, whether or not it has stepped."""
        return frozenset(each for one in self.acts.optimizers for each in one.tensors)

    @cached_property
    def parameters(self) -> Mapping[int, int]:
        """Parameters of modules that have run, each with the module that has it."""
        return parameters(self.trace)

    @cached_property
    def reached(self) -> frozenset[int]:
        """Leaves to which a backward has brought a gradient."""
        return frozenset(reached_leaves(self.trace))

    @cached_property
    def roots(self) -> frozenset[int]:
        """Leaves at which a backward began."""
        nodes = self.trace.table(Node)
        roots = {root for task in self.trace.rows(GraphTask) for root in task.roots}
        rows = [nodes.row(root) for root in roots if nodes.has(root)]
        return frozenset(
            row.inputs[0] for row in rows if row.name == ACCUMULATE_GRAD and row.inputs
        )

    @cached_property
    def frozen(self) -> frozenset[int]:
        """Tensors that ask for no gradient, as was last seen."""
        table = self.trace.table(Tensor)
        asks = dict(zip(table["id"].tolist(), table["requires_grad"].tolist(), strict=True))
        for act in self.acts.of(Deed.REQUIRES_GRAD):
            for tensor in act.tensors:
                asks[tensor] = bool(act.facts.get("to"))
        return frozenset(tensor for tensor, does in asks.items() if not does)

    @cached_property
    def thawed(self) -> frozenset[int]:
        """Tensors that asked for a gradient at some time."""
        table = self.trace.table(Tensor)
        asked = set(table["id"][table["requires_grad"]].tolist())
        for act in self.acts.of(Deed.REQUIRES_GRAD):
            asked.update(act.tensors if act.facts.get("to") else ())
        return frozenset(asked)

    @cached_property
    def backwards(self) -> int:
        """How many there were."""
        return len(self.trace.table(GraphTask))

    def root_of(self, tensor: int) -> int:
        """The outermost module that the module of a parameter is in."""
        modules, found = self.trace.table(Module), self.parameters[tensor]
        while modules.has(found) and (above := modules.row(found).parent) != NONE:
            found = above
        return found

    def named(self, tensors: Iterable[int]) -> str:
        """What a person calls them: "fc.weight and fc.bias", "encoder.* (12 parameters)"."""
        several = sorted(set(tensors))
        titles = [self.title(each) for each in several]
        if len(titles) <= FEW:
            return " and ".join(titles)
        common = _common(titles)
        if common:
            return f"{common}.* ({len(titles)} parameters)"
        return f"{titles[0]}, {titles[1]} and {len(titles) - FEW} more"

    def title(self, tensor: int) -> str:
        found = leaf(self.trace, tensor)
        if found is None:
            return "a tensor"
        if found.name:
            return found.name
        shape = "×".join(map(str, found.shape)) or "scalar"
        return f"a leaf ({shape})"


def _common(titles: list[str]) -> str:
    """The path that all begin with."""
    paths = [title.split(".") for title in titles]
    together: list[str] = []
    for parts in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(parts)) > 1:
            break
        together.append(parts[0])
    return ".".join(together)
