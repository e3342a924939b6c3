"""Iterators of a loader: in this process or with workers."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from gradscope.runtime import multiprocessing
from gradscope.runtime._utils import ExceptionWrapper
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.utils.data._utils.fetch import fetcher
from gradscope.runtime.utils.data._utils.worker import Ended, Job, Resume
from gradscope.runtime.utils.data._utils.workers import Worker, Workers
from gradscope.runtime.utils.data.sampler import drawn_seed

_NO_ACCELERATOR = (
    "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
    "won't be used."
)


class _BaseDataLoaderIter:
    """Base of iterators. Draws a seed for workers even if there are none, as PyTorch does."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._iterable = bool(loader._dataset_kind)
        self._reported = loader._IterableDataset_len_called
        self._num_workers = loader.num_workers
        self._index_sampler = loader._index_sampler
        if loader.pin_memory:
            if loader.pin_memory_device:
                warn(
                    "pin_memory_device is deprecated, the current accelerator will be used as the "
                    f"device,ignore pin_memory_device='{loader.pin_memory_device}'."
                )
            warn(_NO_ACCELERATOR)
        self._keys = iter(self._index_sampler)
        self._base_seed = drawn_seed(loader.generator)
        self._num_yielded = 0

    def __iter__(self) -> Any:
        return self

    def _reset(self, loader: Any) -> None:
        self._keys = iter(self._index_sampler)
        self._num_yielded = 0
        self._reported = loader._IterableDataset_len_called

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        if self._iterable and self._reported is not None and self._num_yielded > self._reported:
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be "
            f"{self._reported}(when accessing len(dataloader)), but {self._num_yielded} samples "
            "have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warn(text)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches batches in this process, when they are requested."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._fetcher = fetcher(self._iterable, *loader._fetching())

    def _next_data(self) -> Any:
        return self._fetcher.fetch(next(self._keys))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Lets workers fetch batches in advance, and returns them in order.

    Tasks are numbered. `_asked` maps tasks to workers; `_here` holds batches that arrived early.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._ahead = loader.prefetch_factor * loader.num_workers
        if self._ahead <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self._workers = Workers(context, [self._job(loader, i) for i in range(self._num_workers)])
        self._begin(loader)

    def _job(self, loader: Any, worker_id: int) -> Job:
        dataset, auto_collation, collate_fn, drop_last = loader._fetching()
        return Job(
            self._iterable,
            dataset,
            auto_collation,
            collate_fn,
            drop_last,
            self._base_seed,
            loader.worker_init_fn,
            worker_id,
            loader.num_workers,
        )

    def _begin(self, loader: Any) -> None:
        super()._reset(loader)
        self._sent = self._next = 0
        self._asked: dict[int, Worker] = {}
        self._here: dict[int, tuple[Worker, Any]] = {}
        self._turns = cycle(self._workers.all)
        for worker in self._workers.all:
            worker.active = True
            worker.outstanding = 0
        for _ in range(self._ahead):
            self._ask()

    def _reset(self, loader: Any) -> None:
        """Start another epoch with the same workers."""
        for worker in self._workers.all:
            worker.active = True
            worker.send(Resume())
        ready = 0
        while ready < self._num_workers:
            number, _ = self._workers.receive(loader.timeout)
            ready += isinstance(number, Resume)
        self._begin(loader)

    def _ask(self) -> None:
        """Send the next keys to the worker whose turn it is."""
        try:
            keys = next(self._keys)
        except StopIteration:
            return
        worker = self._whose_turn()
        if worker is None:
            return
        worker.send((self._sent, keys))
        worker.outstanding += 1
        self._asked[self._sent] = worker
        self._sent += 1

    def _whose_turn(self) -> Worker | None:
        active = sum(each.active for each in self._workers.all)
        for _ in range(self._num_workers):
            worker = next(self._turns)
            free = self._loader.in_order or worker.outstanding < self._ahead // max(active, 1)
            if worker.active and free:
                return worker
        return None

    def _next_data(self) -> Any:
        while True:
            self._pass_over_ended()
            if self._next in self._here:
                worker, data = self._here.pop(self._next)
                self._next += 1
                return self._given(worker, data)
            if self._next >= self._sent:
                if not self._loader.persistent_workers:
                    self._workers.close()
                raise StopIteration
            number, data = self._workers.receive(self._loader.timeout)
            worker = self._asked.pop(number)
            if isinstance(data, Ended):
                self._end(worker)
            elif self._loader.in_order:
                self._here[number] = worker, data
            else:
                return self._given(worker, data)

    def _pass_over_ended(self) -> None:
        """Skip tasks of workers that ran out of samples."""
        while self._next < self._sent and self._next not in self._here:
            worker = self._asked.get(self._next)
            if worker is not None and worker.active:
                return
            self._asked.pop(self._next, None)
            self._next += 1

    def _end(self, worker: Worker) -> None:
        if self._loader.persistent_workers:
            worker.active = False
        else:
            self._workers.dismiss(worker)
        self._ask()

    def _given(self, worker: Worker, data: Any) -> Any:
        worker.outstanding -= 1
        self._ask()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _shutdown_workers(self) -> None:
        self._workers.close()
