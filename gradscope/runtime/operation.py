"""What a declared operation is: its kernel, its node, its roads, and what its row says of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.runtime.autograd.node import OpNode
    from gradscope.runtime.road import Plan

REGISTRY: dict[str, Operation] = {}
"""Every declared operation by its full name (`mul.Tensor`)."""


class Trait:
    """Something a row says about its operation beside forward and derivatives."""


PROMOTES = Trait()
"""Its tensors are brought to one dtype first, by PyTorch's rules."""
FLOATS = Trait()
"""Integers are brought to the default floating dtype first."""
COMPARES = Trait()
"""Its tensors are brought to one dtype; its result has another (bool), and no gradient."""
BY_HAND = Trait()
"""Its complex derivative is written out: not conj(formula(conj(grad)))."""
F_ONLY = Trait()
"""It lives in `nn.functional` only."""
METHOD_ONLY = Trait()
"""It is a method of tensors only."""
FUNCTION_ONLY = Trait()
"""It is a function only."""
INTERNAL = Trait()
"""Users do not see it: a part of another operation."""
TENSORS_ONLY = Trait()
"""Its second input may not be a Python number."""


@dataclass(frozen=True)
class Tensors(Trait):
    """Inputs that are tensors but get no gradient."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Numbers(Trait):
    """Inputs that are plain numbers, where the same name means a tensor elsewhere (`self`)."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Outputs(Trait):
    """Names of several outputs; `without` of them get no gradient."""

    names: tuple[str, ...]
    without: tuple[str, ...] = ()
    structure: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Sequences(Trait):
    """The first input is a sequence of tensors."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Constants(Trait):
    """Options that are the same in every call of this overload, and that its node shows."""

    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Refused(Trait):
    """Kinds of dtype (NumPy's letters) it does not know, and what it says of them.

    `given`: asked of what the user gave, not of what promotion made of it. `by_numpy`: NumPy
    refuses them too, so that the short road need not look.
    """

    kinds: str
    text: str
    given: bool = False
    by_numpy: bool = False


@dataclass(frozen=True)
class Named(Trait):
    """The overload's name, where PyTorch has several: `Scalar`, `Tensor`, `dim`."""

    overload: str


@dataclass(frozen=True)
class Hidden(Trait):
    """What a node keeps without showing it as `_saved_*`: PyTorch keeps it elsewhere."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Joint(Trait):
    """One formula for several inputs at once."""

    names: tuple[str, ...]
    by: Callable[..., Any]


class Formula:
    """A derivative and the words it is written in."""

    __slots__ = ("function", "words")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.words = tuple(inspect.signature(function).parameters)

    def __call__(self, *words: Any) -> Any:
        return self.function(*words)


@dataclass(eq=False)
class Operation:
    """A declared operation: its kernel, its node, its roads."""

    node_name: str
    kernel: Callable[..., Any]
    plan: Plan
    formulas: tuple[Formula, ...]
    traits: tuple[Trait, ...]
    joint: bool
    name: str = ""
    number: int = 0
    node_class: type[OpNode] | None = None
    road: Callable[..., Any] = field(default=lambda: None)
    full: Callable[..., Any] = field(default=lambda: None)
    inplace_of: Operation | None = None

    def call_with(self, *arguments: Any) -> Any:
        """Call with all arguments in the order of the row."""
        named = dict(zip((p.public for p in self.plan.parameters), arguments, strict=False))
        return self.road(**named)

    @property
    def promotes(self) -> bool:
        return PROMOTES in self.traits or COMPARES in self.traits

    @property
    def base_name(self) -> str:
        return self.name.partition(".")[0]

    @property
    def schema(self) -> str:
        """The operator's schema, as PyTorch writes them."""
        parts: list[str] = []
        star = False
        for p in self.plan.parameters:
            if p.keyword_only and not star:
                parts.append("*")
                star = True
            kind = "Tensor[]" if p.many else "Tensor?" if p.optional else "Tensor"
            kind = kind if p.tensor else _kind_of(p.default)
            parts.append(f"{kind} {p.name}" + (f"={p.default}" if p.has_default else ""))
        count = self.plan.outputs
        result = (
            "Tensor"
            if count == 1
            else "Tensor[]"
            if not count
            else f"({', '.join(['Tensor'] * count)})"
        )
        return f"{self.name}({', '.join(parts)}) -> {result}"


def _kind_of(default: Any) -> str:
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(type(default), "any")
