"""Fetches samples from a dataset and collates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Fetcher:
    """Base of fetchers: the dataset and how samples become a batch."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        raise NotImplementedError


class _MapDatasetFetcher(_Fetcher):
    """Fetches samples by key."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        dataset, keys = self.dataset, possibly_batched_index
        if not self.auto_collation:
            return self.collate_fn(dataset[keys])
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(keys))
        return self.collate_fn([dataset[key] for key in keys])


class _IterableDatasetFetcher(_Fetcher):
    """Fetches the next samples, one for each key."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = []
        for _ in possibly_batched_index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(samples)


def fetcher(iterable: bool, *parts: Any) -> _Fetcher:
    """The fetcher for this kind of dataset."""
    return (_IterableDatasetFetcher if iterable else _MapDatasetFetcher)(*parts)
