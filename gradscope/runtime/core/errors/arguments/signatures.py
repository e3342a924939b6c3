"""The ways in which PyTorch's functions are called, as `signatures.txt` tells them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

SHOWN = {
    "operand": "Tensor", "ints": "tuple of ints", "ints1": "tuple of ints",
    "floats": "tuple of floats", "Numbers": "tuple of Scalars", "Tensors": "tuple of Tensors",
    "out": "Tensor", "dtype": "torch.dtype", "device": "torch.device", "layout": "torch.layout",
    "format": "torch.memory_format", "Generator": "torch.Generator",
}  # fmt: skip
"""Kinds of arguments that errors call otherwise."""


class SignatureParameter(NamedTuple):
    """What one parameter takes. With `none`, None is one of the things it takes."""

    name: str
    kind: str
    none: bool
    default: str | None
    by_name: bool

    @property
    def shown(self) -> str:
        """The kind, as errors name it."""
        return SHOWN.get(self.kind, self.kind)

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.shown} {self.name}{default}"


class CallSignature(NamedTuple):
    """One way to call a function."""

    parameters: tuple[SignatureParameter, ...]

    @property
    def by_place(self) -> int:
        """How many arguments may be given without a name."""
        return sum(not p.by_name for p in self.parameters)

    @property
    def needed(self) -> int:
        """How many must be given."""
        return sum(p.default is None for p in self.parameters)

    @property
    def takes_sizes(self) -> bool:
        """Whether sizes may be given one by one: `view(2, 3)` for `view((2, 3))`."""
        return self.by_place == 1 and self.parameters[0].kind == "ints"

    def __str__(self) -> str:
        before = [str(p) for p in self.parameters if not p.by_name]
        by_name = [str(p) for p in self.parameters if p.by_name]
        return f"({', '.join([*before, *(['*'] if by_name else []), *by_name])})"


@cache
def table() -> dict[str, tuple[CallSignature, ...]]:
    """The ways of every function; a method's name begins with a dot."""
    from pathlib import Path

    text = Path(__file__).with_name("signatures.txt").read_text(encoding="utf-8")
    found: dict[str, list[CallSignature]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("(")
        found.setdefault(name, []).append(_way(rest.removesuffix(")")))
    return {name: tuple(ways) for name, ways in found.items()}


def _way(text: str) -> CallSignature:
    parameters, by_name = [], False
    for part in filter(None, text.split(", ")):
        if part == "*":
            by_name = True
            continue
        kind, _, rest = part.partition(" ")
        name, equals, default = rest.partition("=")
        parameters.append(
            SignatureParameter(
                name,
                kind.removesuffix("?"),
                kind.endswith("?"),
                default if equals else None,
                by_name,
            )
        )
    return CallSignature(tuple(parameters))
