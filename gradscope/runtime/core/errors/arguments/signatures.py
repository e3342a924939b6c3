"""The signatures of PyTorch's functions, read from `signatures.txt`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

SHOWN = {
    "operand": "Tensor", "ints": "tuple of ints", "ints1": "tuple of ints",
    "floats": "tuple of floats", "Numbers": "tuple of Scalars", "Tensors": "tuple of Tensors",
    "out": "Tensor", "dtype": "torch.dtype", "device": "torch.device", "layout": "torch.layout",
    "format": "torch.memory_format", "Generator": "torch.Generator",
}  # fmt: skip
"""Names in errors of the kinds of arguments, where they differ."""


class SignatureParameter(NamedTuple):
    """One parameter: its kind, and whether it also accepts None (`none`)."""

    name: str
    kind: str
    none: bool
    default: str | None
    by_name: bool

    @property
    def shown(self) -> str:
        """Name of the kind in errors."""
        return SHOWN.get(self.kind, self.kind)

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.shown} {self.name}{default}"


class CallSignature(NamedTuple):
    """One way to call a function."""

    parameters: tuple[SignatureParameter, ...]

    @property
    def by_place(self) -> int:
        """Largest number of positional arguments."""
        return sum(not p.by_name for p in self.parameters)

    @property
    def needed(self) -> int:
        """Number of required arguments."""
        return sum(p.default is None for p in self.parameters)

    @property
    def takes_sizes(self) -> bool:
        """Whether sizes may be separate arguments: `view(2, 3)` for `view((2, 3))`."""
        return self.by_place == 1 and self.parameters[0].kind == "ints"

    def __str__(self) -> str:
        before = [str(p) for p in self.parameters if not p.by_name]
        by_name = [str(p) for p in self.parameters if p.by_name]
        return f"({', '.join([*before, *(['*'] if by_name else []), *by_name])})"


@cache
def table() -> dict[str, tuple[CallSignature, ...]]:
    """The signatures of every function; a method's name begins with a dot."""
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
