"""Memory read with another sign, for PyTorch's conj and neg bits.

# Note [Mirrors]
PyTorch stores a bit in the tensor and changes the sign on every read. NumPy's arrays cannot do
that. Here a tensor with a bit uses a *mirror*: memory as large as its storage with the same values,
each with its sign changed, at the same offset. Operations on the tensor read an ordinary array,
whose strides and offset are those on the storage itself.

A write to one side is copied to the other when the version is incremented. The counters of these
tensors have classes that do so when they are set, as InferenceCounter does its check. Tensors
without bits have ordinary counters at no cost. All tensors of an alias set still share the version.

Uncounted writes (through `numpy()`, or an earlier `.data`) appear in the mirror after the next
counted write, or when a bit is set again.
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
    """How a tensor's memory is read: conjugated, negated."""

    conj: bool
    neg: bool

    def turned(self, by: Bits) -> Bits:
        """These bits combined with others. Setting a bit twice clears it."""
        return Bits(self.conj is not by.conj, self.neg is not by.neg)


PLAIN, CONJ, NEG = Bits(False, False), Bits(True, False), Bits(False, True)


class MirrorStorage(Storage):
    """The storage of a tensor with a bit. Users see the original storage."""

    __slots__ = ("origin",)

    def __init__(self, array: Array, origin: Storage) -> None:
        super().__init__(array, origin.device)
        self.origin = origin

    def data_ptr(self) -> int:
        return self.origin.data_ptr()

    def bytes(self) -> Array:
        return self.origin.bytes()


class Mirror:
    """A copy of a storage with changed signs. It lives as long as a tensor with these bits."""

    __slots__ = ("__weakref__", "_array", "_seen", "bits", "origin", "storage")

    def __init__(self, origin: Storage, dtype: np.dtype[Any], bits: Bits) -> None:
        self.bits = bits
        self.origin = origin
        self._array = np.empty(origin.nbytes() // dtype.itemsize, dtype)
        self._seen = np.empty_like(self._array)
        self.storage = MirrorStorage(self._array, origin)

    def refresh(self) -> None:
        """Copy the storage to the mirror."""
        self._array[...] = self._turned(self._original())
        self._seen[...] = self._array

    def carry(self) -> None:
        """Copy what was written here to the storage; the rest of the storage stays."""
        kind = np.dtype((np.void, self._array.itemsize))
        written = self._array.view(kind) != self._seen.view(kind)
        self._original()[written] = self._turned(self._array[written])

    def _original(self) -> Array:
        return strided(self.origin, self._array.dtype, self._array.shape, (1,), 0)

    def _turned(self, values: Array) -> Array:
        values = np.conj(values) if self.bits.conj else values
        return negated(values) if self.bits.neg else values


def negated(values: Any) -> Any:
    """The values negated; bit by bit for dtypes that NumPy cannot compute with."""
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
        """The mirror for a dtype and these bits."""
        found = self._alive.get(key)
        if found is None:
            found = self._alive[key] = Mirror(origin, *key)
        found.refresh()
        return found

    def refresh(self) -> None:
        for mirror in list(self._alive.values()):
            mirror.refresh()


class Reflected:
    """A counter's reference to the mirrors of its memory, and counters with the same version."""

    __slots__ = ("counters", "mirrors")

    def __init__(self, mirrors: Mirrors) -> None:
        self.mirrors = mirrors
        self.counters: WeakValueDictionary[Key, BitsCounter] = WeakValueDictionary()


VALUE: Any = VersionCounter.__dict__["value"]
"""The slot itself, which a watcher reads."""


class OriginalCounter(VersionCounter):
    """The counter of memory with mirrors: a counted write updates them at once."""

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
    """The counter of tensors with a bit: that of the aliases, plus copying from the mirror."""

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
    """The same for inference tensors: counts nothing, but updates the mirrors."""

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
    """The storage that users see: for a mirror, the original."""
    versions, storage = tensor._versions, tensor.untyped_storage()
    found: Storage = versions.mirror.origin if isinstance(versions, BitsCounter) else storage
    return found


def turned(tensor: Any, by: Bits) -> tuple[Array, Storage, VersionCounter]:
    """Array, storage and counter of a tensor with other bits on the same memory."""
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
    """The counter for tensors with these bits. The alias set has mirrors from now on."""
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
    """The counter of a `.data`: None, or for memory with mirrors one that updates them."""
    if isinstance(versions, InferenceOriginal | InferenceBits):
        return versions  # counts nothing
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
