"""The numbers in a tensor, as an array of NumPy's that looks at its memory.

# Note [Without a call]
A call of PyTorch's would be told of like any other, may be refused where this is asked (in the
middle of one), and an object made for a tensor would stand in the way of who wants to make another
kind of object for it. So a tensor is read where it lies (`at::TensorImpl`). Where its fields are is
no contract: they are looked for at the start in tensors that are known, and what is not found in
one place only is not used. Only tensors that say of themselves exactly what plain ones on the CPU
say (their key set) are read.
"""

from __future__ import annotations

import ctypes
from ctypes import string_at
from functools import cache
from math import prod
from struct import Struct, unpack
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

KINDS: dict[Any, Any] = {
    torch.float64: np.float64, torch.float32: np.float32, torch.float16: np.float16,
    torch.bfloat16: np.uint16, torch.complex64: np.complex64, torch.complex128: np.complex128,
    torch.int64: np.int64, torch.int32: np.int32, torch.int16: np.int16, torch.int8: np.int8,
    torch.uint8: np.uint8, torch.bool: np.bool_,
}  # fmt: skip
WORDS = 24
"""So many words of a TensorImpl are looked at."""

INLINE = 5
"""So many sizes, and after them as many strides, lie in the tensor itself."""

MOST_OF_FEW = 1 << 24
"""So many elements of an expanded tensor are not looked at, since they are few in memory."""

SHAPE, OFFSET = (5, 7, 11), 29


class NotReadable(Exception):  # noqa: N818 -- why numbers are not seen
    """This build of PyTorch lays out its tensors in another way."""


class Places(NamedTuple):
    """Where what lies, in words; and what it means."""

    storage: int
    data: int  # in the storage
    offset: int
    sizes: int  # how many dims; then sizes, then strides
    keys: int
    dtype: int  # in halves of halves of words
    kinds: dict[tuple[int, int], Any]  # key set and dtype of plain tensors: the elements


def numbers_at(tensor: int) -> Any:
    """What is in the tensor at this address, to be read at once; None: nothing this can read."""
    places = found()
    fields = string_at(tensor, 8 * WORDS)
    words = _READ(fields)
    kind = places.kinds.get((words[places.keys], _READ_HALVES(fields)[places.dtype]))
    if kind is None:
        return None
    (data,) = _READ_ONE(string_at(words[places.storage] + 8 * places.data, 8))
    dims, first = words[places.sizes], places.sizes + 1
    if dims > INLINE:
        both = unpack(f"{2 * dims}q", string_at(words[first], 16 * dims))
        shape, strides = both[:dims], both[dims:]
    else:
        shape, strides = words[first : first + dims], words[first + INLINE : first + INLINE + dims]
    many = prod(shape)
    if not many or not data:
        return np.empty(shape, kind.type)
    last = sum((each - 1) * stride for each, stride in zip(shape, strides, strict=True))
    if many > MOST_OF_FEW and many > last + 1:
        return None
    size = kind.itemsize
    start = data + words[places.offset] * size
    memory = (ctypes.c_char * ((last + 1) * size)).from_address(start)
    array: Any = np.ndarray(shape, kind, memory, 0, tuple([stride * size for stride in strides]))
    if kind.char == UPPER_HALF:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array


_READ, _READ_HALVES = Struct(f"{WORDS}q").unpack, Struct(f"{4 * WORDS}H").unpack
_READ_ONE = Struct("q").unpack
UPPER_HALF = "H"  # of a float32: a bfloat16


def numbers_in(tensor: Any) -> Any:
    """The same of a tensor that is at hand."""
    return numbers_at(tensor._cdata)


def _words(address: int, many: int) -> NDArray[np.int64]:
    memory = memoryview((ctypes.c_char * (8 * many)).from_address(address))
    return np.frombuffer(memory, np.int64)


@cache
def found() -> Places:
    """Where everything lies, as known tensors have it."""
    plain = [_known(dtype) for dtype in KINDS]
    words = [_words(each._cdata, WORDS).tolist() for each in plain]
    sizes = _only(
        at
        for at in range(WORDS - 9)
        if all(w[at : at + 4] == [3, *SHAPE] and w[at + 6 : at + 9] == [77, 11, 1] for w in words)
    )
    storage = _only(
        at
        for at in range(WORDS)
        if all(w[at] == t.untyped_storage()._cdata for w, t in zip(words, plain, strict=True))
    )
    memory = plain[0].untyped_storage()
    data = _only(
        at for at, word in enumerate(_words(memory._cdata, 4).tolist()) if word == memory.data_ptr()
    )
    offset = _only(at for at in range(WORDS) if all(w[at] == OFFSET for w in words))
    keys = _only(at for at in range(WORDS) if at not in {storage, offset} and _tells(at))
    halves = [_words(each._cdata, WORDS).view(np.uint16).tolist() for each in plain]
    other = _words(torch.ones(2, 2, dtype=torch.float64)._cdata, WORDS).view(np.uint16).tolist()
    dtype = _only(
        at
        for at in range(4 * WORDS)
        if len({h[at] for h in halves}) == len(KINDS) and halves[0][at] == other[at]
    )
    kinds = {
        (w[keys], h[dtype]): np.dtype(kind)
        for w, h, kind in zip(words, halves, KINDS.values(), strict=True)
    }
    return Places(storage, data, offset, sizes, keys, dtype, kinds)


def _known(dtype: Any) -> Any:
    return torch.ones(OFFSET + 385, dtype=dtype)[OFFSET:].view(SHAPE)


def _tells(at: int) -> bool:
    """Whether this word is the same for all plain tensors, and another for all that are not."""
    one = torch.ones(2, dtype=torch.complex64)
    plain = [_known(dtype) for dtype in KINDS] + [torch.ones(3, requires_grad=True)]
    others = [one.conj(), torch.imag(one.conj()), torch.empty(2, device="meta")]
    others.append(torch.ones(2, 2).to_sparse())
    said = {_words(each._cdata, WORDS)[at].item() for each in plain}
    return len(said) == 1 and not said & {_words(o._cdata, WORDS)[at].item() for o in others}


def _only(places: Any) -> int:
    found = list(places)
    if len(found) != 1:
        raise NotReadable("what a tensor consists of is not where it was expected")
    return int(found[0])
