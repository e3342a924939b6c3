"""Arguments of a captured step: tensors by layout, everything else by value."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.fast.capture.recording.recording import PLAIN
from gradscope.runtime.fast.capture.recording.watching import WatchedCode


@dataclass(frozen=True, slots=True)
class ArgumentValue:
    """One value in the arguments, and its expression in a guard."""

    place: str
    value: Any


def leaves(value: Any, place: str) -> Iterator[ArgumentValue]:
    """All values in nested lists, tuples and dicts, and these themselves."""
    yield ArgumentValue(place, value)
    if type(value) in (list, tuple):
        for index, item in enumerate(value):
            yield from leaves(item, f"{place}[{index}]")
    elif type(value) is dict:
        for key, item in value.items():
            yield from leaves(item, f"{place}[{key!r}]")


class Arguments:
    """The arguments of the recorded call."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.leaves = [*leaves(args, "args"), *leaves(kwargs, "kwargs")]
        self.tensors: list[ArgumentValue] = []
        seen: set[int] = set()
        self.repeated = False
        for leaf in self.leaves:
            if isinstance(leaf.value, Tensor):
                self.repeated = self.repeated or id(leaf.value) in seen
                seen.add(id(leaf.value))
                self.tensors.append(leaf)
        self.facts = [_facts(leaf.value) for leaf in self.tensors]

    def unreadable(self, program: WatchedCode) -> str:
        """Why no guard can be written for these arguments; empty if one can."""
        if self.repeated:
            return "a tensor is passed twice"
        for leaf in self.leaves:
            if type(leaf.value) is dict and not all(map(_is_spelled, leaf.value)):
                return f"a key of {leaf.place} is not a plain value"
        for leaf in self.tensors:
            names = leaf.value.__dict__
            if names and (program.every_attribute or not program.attributes.isdisjoint(names)):
                return f"{leaf.place} has additional attributes"
        return ""

    def leaves_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ArgumentValue]:
        """The tensors among other arguments."""
        found = [*leaves(args, "args"), *leaves(kwargs, "kwargs")]
        return [leaf for leaf in found if isinstance(leaf.value, Tensor)]

    def others(self) -> Iterator[ArgumentValue]:
        """Objects that are neither tensors nor plain values: compared by identity."""
        for leaf in self.leaves:
            if not isinstance(leaf.value, (Tensor, list, tuple, dict, *PLAIN)):
                yield leaf

    def text(self, scope: dict[str, Any]) -> list[str]:
        """Lines that return False if arguments differ."""
        tests = []
        scope.update(Tensor=Tensor, facts=_facts, same=_same)
        nr = 0
        for place, leaf in enumerate(self.leaves):
            value, kind = leaf.value, type(leaf.value)
            if isinstance(value, Tensor):
                scope[f"x{nr}"] = self.facts[nr]
                tests.append(f"facts({leaf.place}) == x{nr}")
                nr += 1
            elif kind in (list, tuple, dict):
                scope[f"y{place}"] = kind
                tests.append(f"{leaf.place}.__class__ is y{place}")
                tests.append(f"len({leaf.place}) == {len(value)}")
                if kind is dict and len(value) > 1:
                    tests.append(f"[*{leaf.place}] == {list(value)!r}")
            elif isinstance(value, PLAIN):
                scope[f"y{place}"] = value
                tests.append(f"same({leaf.place}, y{place})")
            else:
                scope[f"y{place}"] = value
                tests.append(f"{leaf.place} is y{place}")
        if len(self.tensors) > 1:
            listed = ", ".join(f"id({leaf.place})" for leaf in self.tensors)
            tests.append(f"len({{{listed}}}) == {len(self.tensors)}")
        return [f"if not ({' and '.join(tests)}):", "    return False"]

    def differ(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """How these differ from the recorded ones, as text; empty if they do not."""
        found = [*leaves(args, "args"), *leaves(kwargs, "kwargs")]
        if [leaf.place for leaf in found] != [leaf.place for leaf in self.leaves]:
            return "the arguments are different"
        nr = 0
        for leaf, before in zip(found, self.leaves, strict=True):
            value = leaf.value
            if isinstance(before.value, Tensor):
                if not isinstance(value, Tensor) or _facts(value) != self.facts[nr]:
                    return f"{leaf.place} was {_told(before.value)}, is {_told(value)}"
                nr += 1
            elif type(value) is not type(before.value):
                return f"{leaf.place} is a {type(value).__name__}"
            elif isinstance(value, PLAIN):
                if not _same(value, before.value):
                    return f"{leaf.place} was {before.value!r}, is {value!r}"
            elif type(value) not in (list, tuple, dict) and value is not before.value:
                return f"{leaf.place} is another {type(value).__name__}"
        ids = {id(leaf.value) for leaf in found if isinstance(leaf.value, Tensor)}
        return "" if len(ids) == len(self.tensors) else "a tensor is passed twice"


def _facts(tensor: Any) -> tuple[Any, ...]:
    """The properties of a tensor argument on which a step depends."""
    array, meta = tensor._array, tensor._meta
    known: tuple[Any, ...] = ()
    if tensor._edge is not None:
        known = ("not a leaf",)
    elif meta is not None:
        grad = meta.grad
        listened = bool(meta.hooks or meta.post_accumulate_hooks or meta.retains_grad)
        held = None if grad is None else (grad._array.shape, grad._array.strides)
        if tensor.requires_grad or listened or held or meta.fw_grad is not None:
            known = (tensor.requires_grad, tensor.is_leaf, listened, held, meta.fw_grad is None)
    return (
        tensor.__class__, array.shape, array.dtype, array.strides, array.flags.writeable,
        bool(tensor.__dict__), tensor._base is None, known,
    )  # fmt: skip


def _is_spelled(key: Any) -> bool:
    """Whether a key equals the value of its repr."""
    try:
        return type(literal_eval(repr(key))) is type(key)
    except (SyntaxError, TypeError, ValueError):
        return False


def _same(value: Any, before: Any) -> bool:
    return value is before or (type(value) is type(before) and repr(value) == repr(before))


def _told(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    facts = _facts(value)
    shape = "×".join(map(str, facts[1])) or "no dims"
    return f"{facts[2].name} of {shape} ({'requires grad' if value.requires_grad else 'no grad'})"
