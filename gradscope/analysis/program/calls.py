"""Forward calls: the calls that created their inputs, and those that used their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.arguments import Given, arguments_of
from gradscope.analysis.program.modules import module_names
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Module, Node, Op, Phase, Tensor
from gradscope.trace.trace import Trace

SAME_NUMBERS = frozenset({
    "view", "reshape", "_reshape_alias", "_unsafe_view", "squeeze", "unsqueeze", "flatten",
    "unflatten", "transpose", "permute", "t", "contiguous", "clone", "alias", "_to_copy", "select",
    "slice", "expand", "narrow", "identity", "detach", "chunk", "split", "movedim", "numpy_T",
})  # fmt: skip
"""Calls whose result contains the values of their input unchanged."""

MOST_OF_A_LINE = 3
"""Number of calls of one line that are checked: a loop repeats itself."""


class CallRows:
    """The columns of calls, by their position in the table."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.ops, self.tensors = trace.table(Op), trace.table(Tensor)
        self._nodes = trace.table(Node)
        texts = {id: trace.text(id).partition(".")[0] for id in distinct(self.ops["name"]).tolist()}
        self._texts = texts
        self.is_forward = (self.ops["phase"] != Phase.OPTIMIZER) & (self.ops["task"] == NONE)
        self.is_forward &= self.ops.ragged("outputs").lengths > 0  # else little is known about it

    def name(self, at: int) -> str:
        """The name without its overload: `mul` for `mul.Tensor`."""
        return self._texts[int(self.ops["name"][at])]

    def id(self, at: int) -> int:
        return int(self.ops["id"][at])

    def inputs(self, at: int) -> list[int]:
        found: list[int] = self.ops.ragged("inputs")[at].tolist()
        return found

    def outputs(self, at: int) -> list[int]:
        found: list[int] = self.ops.ragged("outputs")[at].tolist()
        return found

    def stack(self, at: int) -> int:
        return int(self.ops["stack"][at])

    def site(self, at: int) -> Site:
        return site_of(self.trace, self.stack(at))

    def module(self, at: int) -> Module | None:
        id, modules = int(self.ops["module"][at]), self.trace.table(Module)
        return modules.row(id) if modules.has(id) else None

    def where(self, at: int) -> str:
        """ " of `head.2` (Softmax)", for a call inside a module."""
        module = self.module(at)
        if module is None or not module.type:
            return ""
        name = self.trace.once(module_names).get(module.id, "")
        return f" of `{name}` ({module.type})" if name else f" of a {module.type}"

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor; (-1,) if it is not in the trace."""
        if not self.tensors.has(tensor):
            return (-1,)
        return tuple(self.tensors.ragged("shape")[self.tensors.index(tensor)].tolist())

    def needs_grad(self, tensor: int) -> bool:
        tensors = self.tensors
        return tensors.has(tensor) and bool(tensors["requires_grad"][tensors.index(tensor)])

    def dtype(self, tensor: int) -> str:
        if not self.tensors.has(tensor):
            return ""
        return self.trace.text(int(self.tensors["dtype"][self.tensors.index(tensor)]))

    def given(self, at: int) -> Given:
        """Arguments of a call besides tensors, if its node was read."""
        node, nodes = int(self.ops["node"][at]), self._nodes
        if node == NONE or not nodes.has(node):
            return {}
        return arguments_of(self.trace.text(int(nodes["arguments"][nodes.index(node)])))

    def results(self, at: int) -> Given:
        """Count, mean and rms of its results, if its node was read."""
        node, nodes = int(self.ops["node"][at]), self._nodes
        if node == NONE or not nodes.has(node):
            return {}
        return arguments_of(self.trace.text(int(nodes["results"][nodes.index(node)])))

    def dims(self, at: int) -> tuple[int, ...] | None:
        """The dims of its first operand that it reduces or uses, from 0; None: not known."""
        found = self.given(at).get("dim")
        many = len(self.shape(self.inputs(at)[0])) if self.inputs(at) else 0
        listed = found if isinstance(found, list) else [found]
        dims = [each for each in listed if isinstance(each, int)]
        if not dims or len(dims) != len(listed) or not all(-many <= each < many for each in dims):
            return None
        return tuple(sorted(each % many for each in dims))


class Calls(CallRows):
    """Calls of the program's forward pass, by name and line, and the connections between them."""

    @property
    def names(self) -> set[str]:
        return {*self._texts.values()}

    # -- several calls ----------------------------------------------------------------------------

    def called(self, *names: str) -> Ids:
        """The positions of calls with these names, in the order of the table."""
        wanted = [id for id, text in self._texts.items() if text in names]
        return np.flatnonzero(np.isin(self.ops["name"], wanted) & self.is_forward)

    def with_tensors(self, *names: str) -> Ids:
        """The positions of calls with these names whose operands and results were recorded."""
        places = self.called(*names)
        told = [self.ops.ragged(name).lengths[places] > 0 for name in ("inputs", "outputs")]
        return places[told[0] & told[1]]

    def few_of_each_line(self, places: Ids) -> Iterator[tuple[list[int], int]]:
        """For each line, the first of these calls, and their number."""
        stacks = self.ops["stack"][places]
        order = np.argsort(stacks, kind="stable")
        _, first, many = np.unique(stacks[order], return_index=True, return_counts=True)
        for at in np.argsort(order[first]).tolist():
            chosen = order[first[at] : first[at] + min(int(many[at]), MOST_OF_A_LINE)]
            yield places[chosen].tolist(), int(many[at])

    def each_line(self, places: Ids) -> list[list[int]]:
        """These calls grouped by line, and within a line by name."""
        stacks, names = self.ops["stack"][places], self.ops["name"][places]
        order = np.lexsort((places, names, stacks))
        stacks, names = stacks[order], names[order]
        cuts = np.flatnonzero((stacks[1:] != stacks[:-1]) | (names[1:] != names[:-1])) + 1
        return [each.tolist() for each in np.split(places[order], cuts) if len(each)]

    # -- connections ------------------------------------------------------------------------------

    def maker(self, tensor: int) -> int:
        """The call that created a tensor; NONE if it was not recorded."""
        if not self.tensors.has(tensor):
            return NONE
        op = int(self.tensors["op"][self.tensors.index(tensor)])
        return self.ops.index(op) if op != NONE and self.ops.has(op) else NONE

    def origin(self, tensor: int, through: Iterable[str] = SAME_NUMBERS) -> int:
        """The call that computed the values of a tensor, before views and copies."""
        for _ in range(64):
            at = self.maker(tensor)
            if at == NONE or self.name(at) not in through:
                return at
            inputs = self.inputs(at)
            if not inputs or inputs[0] == tensor:
                return at
            tensor = inputs[0]
        return NONE

    def origin_leaf(self, tensor: int) -> int:
        """The tensor of which this one is a view or a transposed view."""
        for _ in range(8):
            at = self.maker(tensor)
            if at == NONE or self.name(at) not in SAME_NUMBERS or not self.inputs(at):
                break
            tensor = self.inputs(at)[0]
        return tensor

    def sources(self, at: int) -> set[int]:
        """The tensors from which a call computed its result, directly or through other calls."""
        found: set[int] = set()
        pending = [at]
        while pending:
            fresh = set(self.inputs(pending.pop())) - found
            found |= fresh
            pending += [made for made in map(self.maker, fresh) if made != NONE]
        return found

    @cached_property
    def _users(self) -> tuple[Ids, Ids]:
        inputs = self.ops.ragged("inputs")
        order = np.argsort(inputs.values, kind="stable")
        return inputs.values[order], inputs.owners[order]

    def users(self, tensor: int) -> list[int]:
        """The calls that use a tensor."""
        tensors, calls = self._users
        first, last = np.searchsorted(tensors, (tensor, tensor + 1)).tolist()
        return list(dict.fromkeys(calls[first:last].tolist()))

    def trained_users(self, tensor: int) -> list[int]:
        """The calls that use a tensor and whose results need a gradient: not mere measurements."""
        return [at for at in self.users(tensor) if any(map(self.needs_grad, self.outputs(at)))]

    def following(self, at: int, through: Iterable[str] = SAME_NUMBERS) -> list[int]:
        """The calls that use the result of a call, after views and copies of it."""
        found: list[int] = []
        pending, seen = [at], {at}
        while pending and len(seen) < 256:
            for tensor in self.outputs(pending.pop()):
                for user in self.users(tensor):
                    if user not in seen:
                        seen.add(user)
                        (pending if self.name(user) in through else found).append(user)
        return sorted(found)
