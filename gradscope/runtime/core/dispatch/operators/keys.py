"""Dispatch keys: they decide which kernels a call passes, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar


class DispatchKey:
    """One key. A call passes later keys in `order` first."""

    order: ClassVar[list[DispatchKey]] = []
    named: ClassVar[dict[str, DispatchKey]] = {}

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return key_of, (self.name,)

    @property
    def priority(self) -> int:
        return DispatchKey.order.index(self)


class _Keys(type):
    """Lets keys be written as attributes: `DispatchKey.CPU`."""

    def __getattr__(cls, name: str) -> DispatchKey:
        found = DispatchKey.named.get(name)
        if found is None:
            raise AttributeError(f"type object 'DispatchKey' has no attribute '{name}'")
        return found

    def __iter__(cls) -> Iterator[DispatchKey]:
        return iter(DispatchKey.named.values())


class Keys(metaclass=_Keys):
    """`torch.DispatchKey`."""


BACKENDS = ("CPU", "Sim", "Meta")
AUTOGRAD = tuple(f"Autograd{name}" for name in BACKENDS)
ORDERED = (
    *BACKENDS, "BackendSelect", "Python", "ADInplaceOrView", *AUTOGRAD, "AutocastCPU",
)  # fmt: skip
ALIASES = (
    "Autograd", "CompositeImplicitAutograd", "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)  # fmt: skip
"""Names that stand for several keys."""


def _made(name: str) -> DispatchKey:
    key = DispatchKey.named[name] = DispatchKey(name)
    return key


for _name in ORDERED:
    DispatchKey.order.append(_made(_name))
for _name in ALIASES:
    _made(_name)


def key_of(given: str | DispatchKey) -> DispatchKey:
    """The key of this name."""
    if isinstance(given, DispatchKey):
        return given
    found = DispatchKey.named.get(given)
    if found is None:
        known = ", ".join(DispatchKey.named)
        raise RuntimeError(f"could not parse dispatch key: {given}\nThere are: {known}")
    return found


def define_key(name: str, *, above: str | DispatchKey = "AutocastCPU") -> DispatchKey:
    """Define a key, which calls pass just before the one below it."""
    if name in DispatchKey.named:
        raise RuntimeError(f"there is a dispatch key called {name} already")
    lower = key_of(above)
    if lower not in DispatchKey.order:
        raise RuntimeError(f"{lower} stands for several keys; a key stands above one of them")
    place = DispatchKey.order.index(lower)
    if lower.name in AUTOGRAD:  # those of all backends share one position
        place = max(DispatchKey.order.index(key_of(each)) for each in AUTOGRAD)
    key = _made(name)
    DispatchKey.order.insert(place + 1, key)
    return key


class DispatchKeySet:
    """A set of keys."""

    __slots__ = ("keys",)

    def __init__(self, keys: DispatchKey | str | Iterable[DispatchKey] = ()) -> None:
        if isinstance(keys, DispatchKey | str):
            keys = (key_of(keys),)
        self.keys = frozenset(keys)

    def has(self, key: DispatchKey | str) -> bool:
        return key_of(key) in self.keys

    def add(self, key: DispatchKey | str) -> DispatchKeySet:
        return DispatchKeySet(self.keys | {key_of(key)})

    def remove(self, key: DispatchKey | str) -> DispatchKeySet:
        return DispatchKeySet(self.keys - {key_of(key)})

    def highestPriorityTypeId(self) -> DispatchKey | None:
        return max(self.keys, key=lambda key: key.priority, default=None)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys | other.keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys & other.keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys - other.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and other.keys == self.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __bool__(self) -> bool:
        return bool(self.keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        """Iterate, beginning with the key that a call passes last."""
        return iter(sorted(self.keys, key=lambda key: key.priority))

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


def keyset(*names: str) -> DispatchKeySet:
    """The set of keys with these names."""
    return DispatchKeySet(map(key_of, names))


AUTOGRAD_KEYS = keyset(*AUTOGRAD)
BACKEND_KEYS = keyset(*BACKENDS)


def after_autograd() -> DispatchKeySet:
    """All keys that a call passes after those of autograd."""
    lowest = min(key.priority for key in AUTOGRAD_KEYS.keys)
    return DispatchKeySet(DispatchKey.order[:lowest])
