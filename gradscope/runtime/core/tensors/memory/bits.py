"""Memory that is read with another sign, for PyTorch's conj and neg bits.

# Note [Mirrors]
PyTorch keeps a bit in the tensor and changes the sign whenever somebody reads. NumPy's arrays
cannot: here a tensor with a bit lies in a *mirror*, which is as large as the storage it reflects
and holds the same numbers with the sign changed, each at its place. Who computes with the tensor
reads an ordinary array, and its strides and offset are those on the storage itself.

A write to one side is carried to the other where writes are counted. The counters of these tensors
are of classes that do it when they are set, as InferenceCounter refuses: tensors without bits keep
the counter they have, and pay nothing. The tensors of one alias set still count together.

What nobody counts (a write through `numpy()`, or through a `.data` that was taken before) is seen
in the mirror after the next counted write, and when a bit is taken again.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from gradscope.runtime.core.tensors.memory.storage import (
    InferenceCounter,
    Storage,
    VersionCounter,
    elements,
    offset_of,
    strided,
)

Array = np.ndarray[Any, Any]


class Bits(NamedTuple):
    """How a tensor's memory is to be read."""

    conj: bool
    neg: bool

    def turned(self, by: Bits) -> Bits:
        """These and others: what is turned twice is as it was."""
        return Bits(self.conj is not by.conj, self.neg is not by.neg)


PLAIN, CONJ, NEG = Bits(False, False), Bits(True, False), Bits(False, True)


class MirrorStorage(Storage):
    """The storage of a tensor with a bit: to users, the one that it reflects."""

    __slots__ = ("origin",)

    def __init__(self, array: Array, origin: Storage) -> None:
        super().__init__(array, origin.device)
        self.origin = origin

    def data_ptr(self) -> int:
        return self.origin.data_ptr()

    def bytes(self) -> Array:
        return self.origin.bytes()


class Mirror:
    """A storage's numbers with another sign; it lives as long as a tensor with these bits."""

    __slots__ = ("__weakref__", "_array", "_seen", "bits", "origin", "storage")

    def __init__(self, origin: Storage, dtype: np.dtype[Any], bits: Bits) -> None:
        self.bits = bits
        self.origin = origin
        self._array = np.empty(origin.nbytes() // dtype.itemsize, dtype)
        self._seen = np.empty_like(self._array)
        self.storage = MirrorStorage(self._array, origin)

    def refresh(self) -> None:
        """Show what the storage holds."""
        self._array[...] = self._turned(self._original())
        self._seen[...] = self._array

    def carry(self) -> None:
        """Give the storage what was written here; what was not written stays as it is there."""
        kind = np.dtype((np.void, self._array.itemsize))
        written = self._array.view(kind) != self._seen.view(kind)
        self._original()[written] = self._turned(self._array[written])

    def _original(self) -> Array:
        return strided(self.origin, self._array.dtype, self._array.shape, (1,), 0)

    def _turned(self, values: Array) -> Array:
        values = np.conj(values) if self.bits.conj else values
        return negated(values) if self.bits.neg else values


def negated(values: Any) -> Any:
    """The same numbers with the other sign; of the dtypes NumPy cannot count with, bit by bit."""
    if values.dtype.kind != "V":
        return np.negative(values)
    bare = values.view(np.dtype(f"u{values.itemsize}"))
    return (bare ^ bare.dtype.type(1 << (8 * values.itemsize - 1))).view(values.dtype)


Key = tuple[np.dtype[Any], Bits]


class Mirrors:
    """All mirrors of one storage."""

    def __init__(self) -> None:
        self._alive: WeakValueDictionary[Key, Mirror] = WeakValueDictionary()

    def of(self, origin: Storage, key: Key) -> Mirror:
        """The one for a dtype and these bits."""
        found = self._alive.get(key)
        if found is None:
            found = self._alive[key] = Mirror(origin, *key)
        found.refresh()
        return found

    def refresh(self) -> None:
        for mirror in list(self._alive.values()):
            mirror.refresh()


class Reflected:
    """What a counter knows of the mirrors of its memory, and the counters that count with it."""

    __slots__ = ("counters", "mirrors")

    def __init__(self, mirrors: Mirrors) -> None:
        self.mirrors = mirrors
        self.counters: WeakValueDictionary[Key, BitsCounter] = WeakValueDictionary()


VALUE: Any = VersionCounter.__dict__["value"]
"""The field itself, which a watcher reads."""


class OriginalCounter(VersionCounter):
    """The counter of memory that has mirrors: a write shows in them as soon as it is counted."""

    __slots__ = ()

    @property
    def value(self) -> int:
        return int(VALUE.__get__(self))

    @value.setter
    def value(self, value: int) -> None:
        reflected: Reflected = self.reflected
        reflected.mirrors.refresh()
        for counter in (self, *reflected.counters.values()):
            VALUE.__set__(counter, value)


class BitsCounter(VersionCounter):
    """The counter of tensors with a bit: the one of their aliases without, seen from the mirror."""

    __slots__ = ("__weakref__", "mirror", "original")

    def __init__(self, original: OriginalCounter, mirror: Mirror) -> None:
        VALUE.__set__(self, original.value)
        self.original = original
        self.mirror = mirror

    @property
    def value(self) -> int:
        return int(VALUE.__get__(self))

    @value.setter
    def value(self, value: int) -> None:
        self.mirror.carry()
        self.original.value = value

    def _of_original(name: str) -> Any:  # type: ignore[misc]  # noqa: N805  (makes a property)
        return property(
            lambda self: getattr(self.original, name),
            lambda self, value: setattr(self.original, name, value),
        )

    place = _of_original("place")
    recorded = _of_original("recorded")
    writer = _of_original("writer")


class InferenceOriginal(InferenceCounter, OriginalCounter):
    """The same of inference tensors: it counts nothing, and still tells the mirrors."""

    __slots__ = ()

    def _pass_on(self) -> None:
        self.reflected.mirrors.refresh()


class InferenceBits(InferenceCounter, BitsCounter):
    """The counter of inference tensors with a bit."""

    __slots__ = ()

    __init__ = BitsCounter.__init__

    def _pass_on(self) -> None:
        self.mirror.carry()
        self.original.value = 0


_MIRRORS: WeakKeyDictionary[Storage, Mirrors] = WeakKeyDictionary()


def bits_of(tensor: Any) -> Bits:
    """The bits of a tensor."""
    versions = tensor._versions
    return versions.mirror.bits if isinstance(versions, BitsCounter) else PLAIN


def origin_of(tensor: Any) -> Storage:
    """The storage that a tensor is on to users, where its mirror is none."""
    versions, storage = tensor._versions, tensor.untyped_storage()
    found: Storage = versions.mirror.origin if isinstance(versions, BitsCounter) else storage
    return found


def turned(tensor: Any, by: Bits) -> tuple[Array, Storage, VersionCounter]:
    """What a tensor with other bits on the same memory is made of."""
    array, versions = tensor._array, tensor._versions
    if isinstance(versions, BitsCounter):
        mirror, versions = versions.mirror, versions.original
        before, here, origin = mirror.bits, mirror.storage, mirror.origin
    else:
        before, here, origin = PLAIN, tensor._storage, tensor._storage
        versions = VersionCounter() if versions is None else versions
    bits = before.turned(by)
    place = offset_of(array, here)
    if bits == PLAIN:
        storage = origin
    else:
        versions = _counter(versions, origin, (array.dtype, bits))
        storage = versions.mirror.storage
    return strided(storage, array.dtype, array.shape, elements(array), place), storage, versions


def _counter(original: Any, origin: Storage, key: Key) -> BitsCounter:
    """The counter for tensors with these bits, of an alias set that is reflected from now on."""
    mirrors = _MIRRORS.get(origin)
    if mirrors is None:
        mirrors = _MIRRORS[origin] = Mirrors()
    if not isinstance(original, OriginalCounter):
        original.__class__ = OriginalCounter if original.tracks else InferenceOriginal
        original.reflected = Reflected(mirrors)
    mirror = mirrors.of(origin, key)
    counters = original.reflected.counters
    found: BitsCounter | None = counters.get(key)
    if found is None:
        kind = BitsCounter if original.tracks else InferenceBits
        found = counters[key] = kind(original, mirror)
    return found


def uncounted(versions: Any) -> Any:
    """The counter of a `.data`: none, but of memory with mirrors one that still tells them."""
    if isinstance(versions, InferenceOriginal | InferenceBits):
        return versions  # it counts nothing
    if isinstance(versions, OriginalCounter):
        return _reflecting(versions)
    if isinstance(versions, BitsCounter):
        original, mirror = _reflecting(versions.original), versions.mirror
        key = (mirror.storage.array.dtype, mirror.bits)
        made = original.reflected.counters[key] = BitsCounter(original, mirror)
        return made
    return None


def _reflecting(counter: OriginalCounter) -> OriginalCounter:
    made = VersionCounter()
    made.__class__ = OriginalCounter
    made.reflected = Reflected(counter.reflected.mirrors)
    return made  # type: ignore[return-value]
