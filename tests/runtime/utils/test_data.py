"""Datasets, the order of samples, batches: the same on both engines, and so is what they draw."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.runtime.both import raises, runtime


class Pair(NamedTuple):
    first: int
    second: float


def data(torch: Any) -> Any:
    """`torch.utils.data` of this engine."""
    return __import__(f"{torch.__name__}.utils.data", fromlist=["data"])


def rows(torch: Any, count: int = 10) -> Any:
    return data(torch).TensorDataset(torch.arange(count * 2.0).view(count, 2), torch.arange(count))


def labels(loader: Any) -> list[list[int]]:
    return [batch[1].tolist() for batch in loader]


# Datasets ----------------------------------------------------------------------------------------


def test_datasets_are_put_together(torch: Any) -> None:
    parts = data(torch)
    first, second = rows(torch, 3), rows(torch, 2)
    both = first + second

    assert (len(both), both.cumulative_sizes) == (5, [3, 5])
    assert [both[i][1].item() for i in (0, 2, 3, 4, -1, -5)] == [0, 2, 0, 1, 1, 0]
    assert parts.Subset(both, [4, 0])[0][1].item() == 1
    assert parts.StackDataset(range(3), "abc")[1] == (1, "b")
    assert parts.StackDataset(n=range(3), t="abc").__getitems__([2, 0]) == [
        {"n": 2, "t": "c"},
        {"n": 0, "t": "a"},
    ]


def test_iterable_datasets_are_chained(torch: Any) -> None:
    class Count(data(torch).IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter(range(3))

        def __len__(self) -> int:
            return 3

    chain = Count() + Count()

    assert (list(chain), len(chain)) == ([0, 1, 2, 0, 1, 2], 6)


def test_a_split_takes_counts_or_shares(torch: Any) -> None:
    split = data(torch).random_split
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert [len(each) for each in split(range(1), [0.5, 0.5])] == [1, 0]

    assert [len(each) for each in split(range(10), [0.33, 0.33, 0.34])] == [4, 3, 3]
    assert sorted(i for part in split(range(5), [2, 3]) for i in part.indices) == list(range(5))


DATASET_ERRORS = {
    "tensors": lambda torch, d: d.TensorDataset(torch.ones(2), torch.ones(3)),
    "stack": lambda torch, d: d.StackDataset(range(2), range(3)),
    "empty stack": lambda torch, d: d.StackDataset(),
    "mixed stack": lambda torch, d: d.StackDataset(range(2), n=range(2)),
    "concat": lambda torch, d: d.ConcatDataset([]),
    "far": lambda torch, d: d.ConcatDataset([range(2)])[-3],
    "no item": lambda torch, d: d.Dataset()[0],
    "sum": lambda torch, d: d.random_split(range(3), [1, 1]),
    "share": lambda torch, d: d.random_split(range(3), [1.5, -0.5]),
    "num_samples": lambda torch, d: d.RandomSampler(range(3), num_samples=0),
    "replacement": lambda torch, d: d.RandomSampler(range(3), replacement=1),
    "batch_size": lambda torch, d: d.BatchSampler(range(3), 0, False),
    "bool size": lambda torch, d: d.BatchSampler(range(3), True, False),
    "drop_last": lambda torch, d: d.BatchSampler(range(3), 2, 0),
    "weights": lambda torch, d: d.WeightedRandomSampler([[1.0]], 2),
    "rank": lambda torch, d: d.DistributedSampler(range(3), 2, 2),
    "ragged": lambda torch, d: d.default_collate([[1, 2], [1]]),
    "objects": lambda torch, d: d.default_collate([object()]),
    "texts": lambda torch, d: d.default_collate([np.array(["a"])]),
    "shapes": lambda torch, d: d.default_collate([torch.ones(2), torch.ones(3)]),
    "workers": lambda torch, d: d.DataLoader([1], num_workers=-1),
    "timeout": lambda torch, d: d.DataLoader([1], timeout=-1),
    "prefetch": lambda torch, d: d.DataLoader([1], prefetch_factor=2),
    "negative prefetch": lambda torch, d: d.DataLoader([1], num_workers=1, prefetch_factor=-2),
    "persistent": lambda torch, d: d.DataLoader([1], persistent_workers=True),
    "context": lambda torch, d: d.DataLoader([1], multiprocessing_context="fork"),
    "wrong context": lambda torch, d: d.DataLoader(
        [1], num_workers=1, multiprocessing_context="spoon"
    ),
    "two orders": lambda torch, d: d.DataLoader([1], shuffle=True, sampler=[0]),
    "two batches": lambda torch, d: d.DataLoader([1], batch_sampler=[[0]], batch_size=2),
    "no batch": lambda torch, d: d.DataLoader([1], batch_size=None, drop_last=True),
    "no samples": lambda torch, d: d.DataLoader([], shuffle=True),
    "later": lambda torch, d: setattr(d.DataLoader([1]), "batch_size", 2),
    "waits alone": lambda torch, d: iter(d.DataLoader([1], timeout=3)),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", DATASET_ERRORS)
def test_what_does_not_go_is_said_in_pytorchs_words(name: str) -> None:
    import torch as real

    found = []
    for torch in (runtime(), real):
        with pytest.raises(Exception) as caught:
            DATASET_ERRORS[name](torch, data(torch))  # type: ignore[no-untyped-call]
        found.append((type(caught.value), str(caught.value).splitlines()[0]))

    assert found[0] == found[1]


# The order ---------------------------------------------------------------------------------------

ORDERS = {
    "plain": lambda d, g: d.DataLoader(range(7), batch_size=3),
    "dropped": lambda d, g: d.DataLoader(range(7), batch_size=3, drop_last=True),
    "shuffled": lambda d, g: d.DataLoader(range(7), batch_size=3, shuffle=True),
    "generator": lambda d, g: d.DataLoader(range(7), shuffle=True, generator=g),
    "one by one": lambda d, g: d.DataLoader(range(7), batch_size=None, shuffle=True),
    "again and again": lambda d, g: d.RandomSampler(range(40), replacement=True, num_samples=70),
    "more": lambda d, g: d.RandomSampler(range(5), num_samples=12),
    "subset": lambda d, g: d.SubsetRandomSampler([5, 6, 9]),
    "weights": lambda d, g: d.WeightedRandomSampler([0.1, 0.9, 0.4], 6),
    "weights once": lambda d, g: d.WeightedRandomSampler([0.1, 0.9, 0.4], 3, False, generator=g),
    "batches": lambda d, g: d.DataLoader(
        range(9), batch_sampler=d.BatchSampler(d.RandomSampler(range(9)), 4, True)
    ),
    "share": lambda d, g: d.DistributedSampler(range(7), 3, 2, seed=5),
    "filled up": lambda d, g: d.DistributedSampler(range(2), 5, 4, shuffle=False),
    "cut": lambda d, g: d.DistributedSampler(range(7), 3, 1, drop_last=True),
    "split": lambda d, g: [each.indices for each in d.random_split(range(9), [0.5, 0.5])],
    "split by": lambda d, g: [each.indices for each in d.random_split(range(9), [4, 5], g)],
}


@pytest.mark.torch
@pytest.mark.parametrize("name", ORDERS)
def test_the_order_and_what_is_drawn_for_it_are_pytorchs(name: str) -> None:
    import torch as real

    found = []
    for torch in (runtime(), real):
        torch.manual_seed(11)
        made = ORDERS[name](data(torch), torch.Generator().manual_seed(4))  # type: ignore[no-untyped-call]
        passes = [[getattr(b, "tolist", lambda b=b: b)() for b in made] for _ in range(2)]
        length = len(made)
        found.append((passes, length, torch.rand(3).tolist()))

    assert found[0] == found[1]


def test_an_epoch_of_a_share_is_an_order_of_its_own(torch: Any) -> None:
    sampler = data(torch).DistributedSampler(range(100), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)

    assert first != list(sampler)


# Batches -----------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """A batch, so that it can be compared with the other engine's."""
    if hasattr(value, "tolist"):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value), {k: shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [shown(each) for each in value]
    return value


SAMPLES = {
    "floats": [0.5, 1.5],
    "ints": [1, 2],
    "bools": [True, False],
    "texts": ["a", "b"],
    "bytes": [b"a", b"b"],
    "arrays": [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "scalars": [np.float32(1), np.float32(2)],
    "doubles": [np.float64(1), np.float64(2)],
    "pairs": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "dicts": [{"x": 1, "y": np.ones(2)}, {"x": 2, "y": np.ones(2)}],
    "ordered": [OrderedDict(x=1), OrderedDict(x=2)],
    "named": [Pair(1, 2.0), Pair(3, 4.0)],
    "nested": [({"a": [1, (2.0, "t")]},), ({"a": [3, (4.0, "u")]},)],
    "ranges": [range(2), range(2)],
}


@pytest.mark.torch
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_become_pytorchs_batch(name: str) -> None:
    import torch as real

    ours, theirs = data(runtime()), data(real)

    assert shown(ours.default_collate(SAMPLES[name])) == shown(
        theirs.default_collate(SAMPLES[name])
    )
    assert shown(ours.default_convert(SAMPLES[name])) == shown(
        theirs.default_convert(SAMPLES[name])
    )


def test_a_type_of_the_programs_own_is_collated_as_it_says(torch: Any) -> None:
    collate = data(torch).dataloader._utils.collate if torch.__name__ == "torch" else None
    collate = collate or __import__(
        "gradscope.runtime.utils.data._utils.collate", fromlist=["collate"]
    )

    class Word:
        pass

    def count(batch: Any, *, collate_fn_map: Any) -> int:
        return len(batch)

    known = {Word: count}

    assert collate.collate([(Word(), Word())] * 3, collate_fn_map=known) == [3, 3]


def test_a_batch_of_rows_that_learn_has_a_history(torch: Any) -> None:
    x = torch.ones(4, 2, requires_grad=True)
    [(batch,)] = data(torch).DataLoader(data(torch).TensorDataset(x), batch_size=4)
    batch.sum().backward()

    assert type(batch.grad_fn).__name__ == "StackBackward0"
    assert x.grad.tolist() == [[1.0, 1.0]] * 4


def test_memory_that_cannot_be_pinned_is_warned_of(torch: Any) -> None:
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert labels(data(torch).DataLoader(rows(torch, 2), pin_memory=True)) == [[0], [1]]


def test_more_samples_than_were_reported_are_warned_of(torch: Any) -> None:
    class Short(data(torch).IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter(range(3))

        def __len__(self) -> int:
            return 1

    loader = data(torch).DataLoader(Short(), batch_size=2)
    assert len(loader) == 1
    with pytest.warns(UserWarning, match="was reported to be 1"):
        list(loader)


def test_an_iterator_cannot_be_pickled(torch: Any) -> None:
    loader = data(torch).DataLoader([1])

    assert raises(NotImplementedError, lambda: iter(loader).__getstate__()).startswith("('{} ca")
