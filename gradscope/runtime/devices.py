"""Where tensors live: `cpu`, and later `sim:N`."""

from __future__ import annotations

from typing import Any


class device:  # noqa: N801  (PyTorch's name)
    """A place for tensors: a type and, where there are several, an index."""

    __slots__ = ("index", "type")

    index: int | None
    type: str

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        kind, _, number = str(type).partition(":")
        if kind not in KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(KNOWN)} device type at start of device string: {kind}"
            )
        if number:
            if index is not None:
                raise RuntimeError(
                    "type (string) must not include an index because index was passed explicitly: "
                    f"{type}"
                )
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        self.type = kind
        self.index = index

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)


KNOWN = ("cpu",)
"""The device types this runtime has."""

CPU = device("cpu")


def check(wanted: Any) -> device:
    """The device of this name; anything but the CPU is refused in words."""
    return CPU if wanted is None else device(wanted)
