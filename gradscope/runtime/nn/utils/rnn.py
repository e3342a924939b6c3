"""Sequences of different lengths in one batch: padded or packed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from gradscope.runtime.core.ops.layers import packing
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import as_tensor, empty_like, tensor
from gradscope.runtime.core.tensors.making.sequences import arange
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):  # noqa: N801 -- PyTorch's name
    """The rows of all sequences step by step, and the number of rows in each step."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


def _mapped(optional: Any, fn: Callable[[Any], Any]) -> Any:
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """A batch of sequences without padding. Recurrent networks accept it; see `pack_sequence`."""

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same sequences on a device or in a dtype."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self

        def moved(indices: Any) -> Any:
            return indices.to(data.device)

        return type(self)(
            data,
            self.batch_sizes,
            _mapped(self.sorted_indices, moved),
            _mapped(self.unsorted_indices, moved),
        )

    def _on(self, kind: str, args: Any, kwargs: Any) -> Self:
        found = tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        if found.device.type == kind:
            return self.to(*args, **kwargs)
        return self.to(*args, **{**kwargs, "device": kind})

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        return self._on("cuda", args, kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        return self._on("cpu", args, kwargs)

    def double(self) -> Self:
        return self.to(dtype=_dtype("float64"))

    def float(self) -> Self:
        return self.to(dtype=_dtype("float32"))

    def half(self) -> Self:
        return self.to(dtype=_dtype("float16"))

    def long(self) -> Self:
        return self.to(dtype=_dtype("int64"))

    def int(self) -> Self:
        return self.to(dtype=_dtype("int32"))

    def short(self) -> Self:
        return self.to(dtype=_dtype("int16"))

    def char(self) -> Self:
        return self.to(dtype=_dtype("int8"))

    def byte(self) -> Self:
        return self.to(dtype=_dtype("uint8"))

    @property
    def is_cuda(self) -> bool:
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        return bool(self.data.is_pinned())

    def pin_memory(self) -> Self:
        return self


def _dtype(name: str) -> Any:
    from gradscope.runtime.core.dtypes.dtypes import NAMES

    return NAMES[name]


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a permutation."""
    if permutation is None:
        return None
    made = empty_like(permutation)
    made.scatter_(0, permutation, arange(0, permutation.numel(), device=permutation.device))
    return made


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch: remove the padding."""
    wanted = _dtype("int64")
    if isinstance(lengths, Tensor):
        lengths = lengths.to(dtype=wanted)
    else:
        lengths = as_tensor(lengths, dtype=wanted)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = FUNCTIONS["sort"](lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = FUNCTIONS["_pack_padded_sequence"](input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """Pad a packed batch. Returns the batch and the lengths of its sequences."""
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{longest}"
            )
        longest = total_length
    padded, lengths = FUNCTIONS["_pad_packed_sequence"](
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Stack sequences in one tensor, padded to the longest."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    pad: Any = packing.pad_sequence
    return pad(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Split a padded batch into its sequences."""
    if not batch_first:
        padded_sequences.transpose_(0, 1)
    places = arange(padded_sequences.shape[1], device=lengths.device)
    pairs = zip(padded_sequences, lengths, strict=True)
    return [sequence[places < length] for sequence, length in pairs]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths."""
    lengths = as_tensor([one.size(0) for one in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Split a packed batch into its sequences."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
