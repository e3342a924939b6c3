"""A loader's workers: other processes, that draw, fail, stop and are killed as PyTorch's."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradscope.trace.schema import GraphTask
from tests.record.running import House
from tests.runtime.both import raises, runtime
from tests.runtime.utils.test_data import data, rows

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def forked() -> Iterator[None]:
    """Workers are forked, as they are up to Python 3.13: actions of these tests are no text."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


class Doing:
    """A dataset that does something for each sample."""

    def __init__(self, action: Any, count: int = 4) -> None:
        self.action = action
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.action(index)


@pytest.fixture
def house(tmp_path: Any) -> House:
    return House(tmp_path)


def passes(torch: Any, count: int, *arguments: Any, **options: Any) -> list[Any]:
    loader = data(torch).DataLoader(*arguments, num_workers=2, **options)
    return [[shown(batch) for batch in loader] for _ in range(count)]


def shown(batch: Any) -> Any:
    return batch.tolist() if hasattr(batch, "tolist") else [each.tolist() for each in batch]


@pytest.mark.torch
@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "batch_size": 3},
        {"shuffle": True, "batch_size": 3, "persistent_workers": True},
        {"drop_last": True, "batch_size": 4, "prefetch_factor": 1},
        {"batch_size": None},
    ],
)
def test_workers_give_what_one_process_gives_and_draw_what_pytorch_draws(
    options: dict[str, Any],
) -> None:
    import torch as real

    found = []
    for torch in (runtime(), real):
        torch.manual_seed(5)
        found.append((passes(torch, 2, rows(torch), **options), torch.rand(2).tolist()))

    assert found[0] == found[1]


@pytest.mark.torch
def test_workers_are_seeded_as_pytorchs() -> None:
    import torch as real

    found = []
    for torch in (runtime(), real):
        torch.manual_seed(5)

        def drawn(_: int, torch: Any = torch) -> Any:
            info = data(torch).get_worker_info()
            numbers = [random.random(), np.random.rand(), torch.rand(()).item()]
            return torch.tensor([*numbers, info.id, info.seed % 1000, info.num_workers])

        found.append(passes(torch, 1, Doing(drawn)))
        assert data(torch).get_worker_info() is None

    assert found[0] == found[1]


@pytest.mark.torch
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"persistent_workers": True}])
def test_copies_of_an_iterable_dataset_end_each_in_its_time(options: dict[str, Any]) -> None:
    import torch as real

    found = []
    for torch in (runtime(), real):
        parts = data(torch)

        class Share(parts.IterableDataset):  # type: ignore[misc]
            def __iter__(self, parts: Any = parts) -> Any:
                info = parts.get_worker_info()
                return iter([0] if info.id else range(1, 10))

        found.append(passes(torch, 2, Share(), batch_size=2, **options))

    assert found[0] == found[1]


def test_a_worker_is_told_which_one_it_is_before_it_begins(torch: Any) -> None:
    dataset = Doing(lambda index: dataset.told)

    def begin(worker_id: int) -> None:
        dataset.told = worker_id

    assert passes(torch, 1, dataset, worker_init_fn=begin) == [[[0], [1], [0], [1]]]


class Odd(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


def failing(torch: Any, error: Exception) -> Any:
    """The batches of a dataset whose third sample cannot be had."""

    def fail(index: int) -> int:
        if index == 2:
            raise error
        return index

    batches = iter(data(torch).DataLoader(Doing(fail), num_workers=2))
    assert [next(batches).item() for _ in range(2)] == [0, 1]
    return batches


def test_an_error_of_a_worker_is_raised_where_its_batch_is_wanted(torch: Any) -> None:
    batches = failing(torch, ValueError("no"))

    with pytest.raises(ValueError, match="Caught") as caught:
        next(batches)
    assert str(caught.value).splitlines()[:2] == [
        "Caught ValueError in DataLoader worker process 0.",
        "Original Traceback (most recent call last):",
    ]
    assert next(batches).item() == 3
    batches._shutdown_workers()  # now, and not when the error that points to it is forgotten


@pytest.mark.parametrize(("error", "kind"), [(KeyError("k"), KeyError), (Odd(1, 2), RuntimeError)])
def test_an_error_that_takes_no_text_says_it_all_the_same(
    error: Exception, kind: type[Exception]
) -> None:
    batches = failing(runtime(), error)

    assert raises(kind, lambda: next(batches)) == (
        f"Caught {type(error).__name__} in DataLoader worker process 0."
    )


def test_an_error_at_a_workers_start_is_raised() -> None:
    torch = runtime()

    def refuse(worker_id: int) -> None:
        raise OSError(f"worker {worker_id}")

    loader = data(torch).DataLoader([1, 2], num_workers=1, worker_init_fn=refuse)

    first = raises(OSError, lambda: list(loader))
    assert first == "Caught OSError in DataLoader worker process 0."


@pytest.mark.parametrize("end", [lambda: os._exit(3), lambda: os.kill(os.getpid(), 9)])
def test_a_worker_that_dies_is_missed_at_once(torch: Any, end: Any) -> None:
    loader = data(torch).DataLoader(Doing(lambda index: end()), num_workers=1)
    start = time.monotonic()

    first = raises(RuntimeError, lambda: list(loader))

    assert first.startswith("DataLoader worker (pid(s) ")
    assert first.endswith(") exited unexpectedly")
    assert time.monotonic() - start < 4


def test_who_waits_too_long_is_told(torch: Any) -> None:
    loader = data(torch).DataLoader(Doing(lambda i: time.sleep(1), 1), num_workers=1, timeout=0.1)

    first = raises(RuntimeError, lambda: list(loader))

    assert first == "DataLoader timed out after 0.1 seconds"


def children(batches: Any) -> list[Any]:
    workers = batches._workers
    return [each.process for each in getattr(workers, "all", ())] or workers


def test_a_pass_that_is_left_ends_its_workers(torch: Any) -> None:
    batches = iter(data(torch).DataLoader(Doing(lambda i: torch.ones(100_000), 50), num_workers=2))
    next(batches)
    processes = children(batches)
    del batches

    assert [process.is_alive() for process in processes] == [False, False]


def test_workers_that_stay_are_the_same_ones(torch: Any) -> None:
    loader = data(torch).DataLoader(
        Doing(lambda i: os.getpid()), num_workers=1, persistent_workers=True
    )
    first, second = set(map(int, loader)), set(map(int, loader))

    assert first == second
    assert os.getpid() not in first


def test_what_cannot_be_sent_is_an_error_and_no_wait() -> None:
    torch = runtime()
    x = torch.ones(2, requires_grad=True)
    dataset = Doing(lambda i: x * 2)
    loader = data(torch).DataLoader(dataset, num_workers=1)

    with pytest.raises(RuntimeError) as caught:
        list(loader)
    assert "Cowardly refusing to serialize non-leaf tensor" in str(caught.value)


def test_a_row_of_a_large_tensor_is_sent_alone() -> None:
    torch = runtime()
    large = torch.zeros(1_000, 1_000)
    loader = data(torch).DataLoader(Doing(lambda i: large[i]), batch_size=None, num_workers=1)

    assert [batch.untyped_storage().nbytes() for batch in loader] == [4_000] * 4


def test_first_come_first_given_if_nobody_minds(torch: Any) -> None:
    def slow(index: int) -> int:
        time.sleep(0.3 if index == 0 else 0)
        return index

    loader = data(torch).DataLoader(Doing(slow), num_workers=2, in_order=False)

    assert sorted(found := [int(batch) for batch in loader]) == [0, 1, 2, 3]
    assert found[0] == 1


SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 6
    def __getitem__(self, i):
        x = torch.full((3,), float(i), requires_grad=True)
        (x * 2).sum().backward()
        return x.grad + i
if __name__ == "__main__":
    w = torch.ones(3, requires_grad=True)
    for epoch in range(2):
        for batch in DataLoader(Rows(), batch_size=2, shuffle=True, num_workers=2):
            (batch * w).sum().backward()
    print(w.grad.tolist())
"""


def test_workers_leave_nothing_in_the_trace(house: House) -> None:
    house.write(SCRIPT)
    ran = house.trace("script.py")

    assert (ran.code, ran.out, ran.err) == (0, "[54.0, 54.0, 54.0]\n", "")
    assert house.violations() == []
    assert len(house.recorded().table(GraphTask)) == 6
