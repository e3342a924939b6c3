"""Guards: one generated function per plan checks that all it depends on is unchanged.

It compares identities, which costs about 30 nanoseconds each. If one differs, the value is
compared: a recomputed number that is equal counts as the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from gradscope.runtime.core.generated.texts import code_of
from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.fast.capture.reach.arguments import Arguments
from gradscope.runtime.fast.capture.reach.holdings import ABSENT, Holding, brief, now, same

Scope = dict[str, Any]


def layout(array: Any) -> tuple[Any, ...]:
    """The properties of an array on which calls depend, other than its values."""
    return array.shape, array.dtype, array.strides, bool(array.flags.writeable)


@dataclass
class TensorState:
    """A tensor that a step can reach, in its state when the step began."""

    tensor: Any
    name: str
    array: Any = field(init=False)
    meta: Any = field(init=False)
    needs_grad: bool = field(init=False)
    leaf: bool = field(init=False)
    grad: Any = field(init=False)
    version: int = field(init=False)
    grad_version: int = field(init=False)
    listened: bool = field(init=False)
    place: str = ""  # its expression in the plan, if it is an argument

    def __post_init__(self) -> None:
        tensor = self.tensor
        self.array, self.meta = tensor._array, tensor._meta
        self.needs_grad, self.leaf = tensor.requires_grad, tensor.is_leaf
        self.grad = None if self.meta is None else self.meta.grad
        self.version = version_of(tensor)
        self.listened = self.meta is not None and listened(self.meta)
        self.grad_version = 0 if self.grad is None else version_of(self.grad)


def quiet(accumulator: Any) -> bool:
    """Whether the node of a leaf has no hooks."""
    node = accumulator()
    extra = None if node is None else node._extra
    return extra is None or not (extra.pre_hooks or extra.post_hooks or extra.tensor_pre_hooks)


def listened(meta: Any) -> bool:
    """Whether a leaf's gradient has hooks. No plan is made of a backward with such hooks."""
    silent = meta.accumulator is None or quiet(meta.accumulator)
    return bool(meta.hooks or meta.post_accumulate_hooks or not silent)


def version_of(tensor: Any) -> int:
    versions = tensor._versions
    return 0 if versions is None else int(versions.value)


class Guards:
    """Checks whether a plan may be replayed with these arguments."""

    def __init__(
        self, holdings: Sequence[Holding], states: Sequence[TensorState], arguments: Arguments
    ) -> None:
        self.holdings = holdings
        self.states = states
        self.arguments = arguments
        self._grads = [None if s.grad is None else layout(s.grad._array) for s in states]
        self.scope: Scope = {}
        self._names: dict[int, str] = {}
        self.failed = ""
        lines = ["def check(args, kwargs):", "    try:"]
        lines += [f"        {line}" for line in arguments.text(self.scope)]
        lines += [f"        {line}" for line in self._tests()]
        lines += ["        return True"]
        lines += ["    except (AttributeError, IndexError, KeyError, TypeError, ValueError):"]
        lines += ["        return False"]
        self.text = "\n".join(lines) + "\n"
        name = "check"
        code = code_of(name, self.text, "guards of a captured step")
        self._check = FunctionType(code, self.scope, name)

    def hold(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether everything is unchanged."""
        return self._check(args, kwargs) or self._look_again(args, kwargs)

    def generators(self) -> list[Generator]:
        """Random number generators that the step can reach."""
        return [h.value for h in self.holdings if isinstance(h.value, Generator)]

    # -- the text -------------------------------------------------------------------------------

    def _tests(self) -> list[str]:
        tests = self._apart()
        tests += [self._holding(nr, holding) for nr, holding in enumerate(self.holdings)]
        for nr, state in enumerate(self.states):
            tests += self._tensor(nr, state)
        lines = []
        for start in range(0, len(tests), 20):
            together = " and ".join(tests[start : start + 20])
            lines += [f"if not ({together}):", "    return False"]
        return lines

    def _apart(self) -> list[str]:
        """Check that no leaf in the arguments is also reached otherwise."""
        self.scope["reached"] = frozenset(id(state.tensor) for state in self.states)
        leaves = [leaf for leaf in self.arguments.tensors if leaf.value.requires_grad]
        return [f"id({leaf.place}) not in reached" for leaf in leaves]

    def _holding(self, nr: int, holding: Holding) -> str:
        owner, value = self._name("o", holding.owner), f"h{nr}"
        self.scope[value] = holding.value
        key = repr(holding.key)
        if not isinstance(holding.key, str | int):
            key = self._name("k", holding.key)
        if holding.kind == "size":
            return f"len({owner}) == {holding.value}"
        if holding.kind == "keys":  # in their order
            return f"[*{owner}] == {value}"
        if holding.kind == "ids":
            return f"[*map(id, {owner})] == {value}"
        if holding.kind == "type":
            return f"{owner}[{key}].__class__ is {value}"
        if holding.kind == "cell":
            return f"{owner}.cell_contents is {value}"
        if holding.kind == "slot":
            self.scope["ABSENT"] = ABSENT
            return f"getattr({owner}, {key}, ABSENT) is {value}"
        if holding.value is ABSENT:
            return f"{key} not in {owner}"
        return f"{owner}[{key}] is {value}"

    def _name(self, letter: str, value: Any) -> str:
        name = self._names.setdefault(id(value), f"{letter}{len(self._names)}")
        self.scope[name] = value
        return name

    def _tensor(self, nr: int, state: TensorState) -> list[str]:
        self.scope[f"t{nr}"], self.scope[f"a{nr}"] = state.tensor, state.array
        tests = [f"t{nr}._array is a{nr}"]
        if state.leaf:  # and it stays one
            tests.append(f"t{nr}._edge is None")
        if state.meta is None:
            return [*tests, f"t{nr}._meta is None"]
        self.scope[f"m{nr}"] = state.meta
        tests += [f"t{nr}._meta is m{nr}", f"m{nr}.requires_grad is {state.meta.requires_grad}"]
        if state.meta.is_view:  # its base may have got a graph
            tests.append(f"t{nr}.requires_grad is {state.needs_grad}")
        if state.needs_grad and state.leaf:
            self.scope["listened"] = listened
            heard = f"listened(m{nr})"
            plain = f"m{nr}.hooks or m{nr}.post_accumulate_hooks"
            quick = f"not ({plain}) and (m{nr}.accumulator is None or quiet(m{nr}.accumulator))"
            self.scope["quiet"] = quiet
            tests += [heard if state.listened else f"({quick})"]
        return [*tests, *self._grad(nr, state)]

    def _grad(self, nr: int, state: TensorState) -> list[str]:
        if self._grads[nr] is None:
            return [f"m{nr}.grad is None"]
        self.scope["layout"] = layout
        self.scope[f"l{nr}"] = self._grads[nr]
        return [f"m{nr}.grad is not None", f"layout(m{nr}.grad._array) == l{nr}"]

    # -- what differs ---------------------------------------------------------------------------

    def _look_again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        self.failed = self.arguments.differ(args, kwargs) or self._given_twice(args, kwargs)
        self.failed = self.failed or self._differs()
        return not self.failed

    def _given_twice(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        for leaf in self.arguments.leaves_of(args, kwargs):
            if leaf.value.requires_grad and id(leaf.value) in self.scope["reached"]:
                return f"{leaf.place} is a tensor that the step also reaches in another way"
        return ""

    def _differs(self) -> str:
        """What is changed, as text. Values with only another identity are updated."""
        changed: dict[str, Any] = {}
        reason = self.holdings_differ(changed)
        if reason:
            return reason
        for nr, state in enumerate(self.states):
            reason = self._differs_in(nr, state, changed)
            if reason:
                return f"{reason} of {state.name}"
        self.scope.update(changed)
        return ""

    def holdings_differ(self, changed: dict[str, Any] | None = None) -> str:
        """Which value of the program changed. `changed` gets those with a new identity."""
        for nr, holding in enumerate(self.holdings):
            found = now(holding)
            if found is holding.value or found is self.scope[f"h{nr}"]:
                continue
            if not same(found, holding.value):
                return f"{holding.name} was {brief(holding.value)}, is {brief(found)}"
            if changed is not None:
                changed[f"h{nr}"] = found
        return ""

    def _differs_in(self, nr: int, state: TensorState, changed: dict[str, Any]) -> str:
        tensor, array = state.tensor, state.tensor._array
        if array is not self.scope[f"a{nr}"]:
            if layout(array) != layout(state.array):
                return "the layout"
            others = [other for other in self.states if other is not state]
            if any(array is o.tensor._array or state.array is o.array for o in others):
                return "the memory"
            changed[f"a{nr}"] = array
        if state.leaf and tensor._edge is not None:
            return "the history"
        meta = tensor._meta
        if meta is not state.meta:
            return "the autograd state"
        if meta is None:
            return ""
        if meta.requires_grad is not self.scope[f"t{nr}"]._meta.requires_grad:
            return "requires_grad"
        if tensor.requires_grad is not state.needs_grad:
            return "requires_grad"
        if state.needs_grad and state.leaf and listened(meta) is not state.listened:
            return "a hook"
        if (meta.grad is None) is not (self._grads[nr] is None):
            return "whether there is a gradient"
        if meta.grad is not None and layout(meta.grad._array) != self._grads[nr]:
            return "the layout of the gradient"
        return ""
