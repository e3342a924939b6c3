"""Datasets: samples by index or by iteration, and combinations of datasets."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.default_generator import chosen, default_generator

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """Base of datasets by index. A subclass defines `__getitem__`, and mostly `__len__`.

    If it defines `__getitems__`, that returns all samples of a batch at once.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Base of datasets that are iterated. Each worker of a loader iterates its own copy."""

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Samples are rows of tensors of equal length."""

    def __init__(self, *tensors: Any) -> None:
        if any(tensors[0].size(0) != each.size(0) for each in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(each[index] for each in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Samples of several datasets side by side: as tuples, or as dicts if given by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        parts = args or tuple(kwargs.values())
        if not parts:
            raise ValueError("At least one dataset should be passed")
        self._length = len(parts[0])
        if any(len(each) != self._length for each in parts):
            raise ValueError("Size mismatch between datasets")
        self.datasets: Any = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        return self._sample([each[index] for each in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [_several(each, indices) for each in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. "
                    f"Expected {len(indices)}, got {len(column)}"
                )
        return [self._sample(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length

    def _parts(self) -> Sequence[Any]:
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else self.datasets

    def _sample(self, values: Iterable[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, values, strict=True))
        return tuple(values)


def _several(dataset: Any, indices: list[Any]) -> Any:
    """Several samples, by `__getitems__` if the dataset has it."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


class ConcatDataset(Dataset[T_co]):
    """Concatenation of datasets."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Cumulative sums of the lengths."""
        return list(accumulate(len(each) for each in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect_right(self.cumulative_sizes, idx)
        first = self.cumulative_sizes[which - 1] if which else 0
        found: T_co = self.datasets[which][idx - first]
        return found


class ChainDataset(IterableDataset[Any]):
    """Concatenation of iterable datasets."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for each in self._checked():
            yield from each

    def __len__(self) -> int:
        return sum(len(each) for each in self._checked())

    def _checked(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield each


class Subset(Dataset[T_co]):
    """Some samples of a dataset, by index."""

    def __init__(self, dataset: Any, indices: Sequence[Any]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is Subset.__getitem__ or cls.__getitems__ is not Subset.__getitems__:
            return
        raise NotImplementedError(
            f"{cls.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset "
            "and overriding __getitem__, you must also override __getitems__ to ensure DataLoader "
            "works correctly with your custom logic. A simple implementation:\n\n"
            "def __getitems__(self, indices):\n"
            "    return [self.__getitem__(idx) for idx in indices]"
        )

    def __getitem__(self, idx: Any) -> T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[each] for each in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[Any]) -> list[T_co]:
        return list(_several(self.dataset, [self.indices[each] for each in indices]))

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Any = default_generator
) -> list[Subset[Any]]:
    """Random disjoint subsets of these lengths, or of these shares."""
    counts = [*lengths]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = [*_shares(len(dataset), lengths)]
    if sum(counts) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    drawn = chosen(generator).permutation(int(sum(counts))).tolist()
    ends = accumulate((int(each) for each in counts), initial=0)
    return [Subset(dataset, drawn[start:end]) for start, end in pairwise(ends)]


def _shares(total: int, fractions: Sequence[float]) -> list[int]:
    """The length of each share. Remainders of rounding go to the first ones."""
    wrong = next((i for i, each in enumerate(fractions) if not 0 <= each <= 1), None)
    if wrong is not None:
        raise ValueError(f"Fraction at index {wrong} is not between 0 and 1")
    counts = [math.floor(total * each) for each in fractions]
    for left in range(total - sum(counts)):
        counts[left % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
            )
    return counts
