"""A declared operation: its kernel, its node, its fast paths, and its traits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.rows.parameters import names_of
from gradscope.runtime.core.rows.traits import COMPARES, PROMOTES, Attaches, Trait
from gradscope.runtime.core.state import upward

if TYPE_CHECKING:
    from gradscope.runtime.core.graph.node import OpNode
    from gradscope.runtime.core.rows.plan import RoadPlan

REGISTRY: dict[str, Operation] = {}
"""Every declared operation by its full name (`mul.Tensor`)."""


class Formula:
    """A derivative and its source."""

    __slots__ = ("function", "words")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.words = names_of(function)

    def __call__(self, *words: Any) -> Any:
        return self.function(*words)


@dataclass(eq=False)
class Operation:
    """A declared operation: its kernel, its node, its fast paths."""

    node_name: str
    kernel: Callable[..., Any]
    plan: RoadPlan
    formulas: tuple[Formula, ...]
    traits: tuple[Trait, ...]
    joint: bool
    name: str = ""
    number: int = 0
    node_class: type[OpNode] | None = None
    road: Callable[..., Any] = field(default=lambda: None)
    inplace_of: Operation | None = None
    replayed: bool = False  # see traits.REPLAYED
    jvp: Callable[..., Any] | None = None

    @cached_property
    def full(self) -> Callable[..., Any]:
        """The path below the dispatcher, built when it is first needed."""
        return upward.full_road(self)

    def call_with(self, *arguments: Any) -> Any:
        """Call with all arguments in the order of the row."""
        named = dict(zip((p.public for p in self.plan.parameters), arguments, strict=False))
        return self.road(**named)

    @property
    def turns(self) -> Any:
        """The bits it changes, if it is a view that reads its input with another sign."""
        return next((t.turns for t in self.traits if isinstance(t, Attaches)), None)

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
