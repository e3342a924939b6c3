"""DistributedSampler: the part of a dataset for one of several training processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from gradscope.runtime.core.tensors.default_generator import Generator
from gradscope.runtime.utils.data.sampler import Sampler


class DistributedSampler(Sampler[Any]):
    """Every `num_replicas`-th sample of a shared order, starting at `rank`."""

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from gradscope.runtime import distributed

            if num_replicas is None:
                num_replicas = distributed.get_world_size()
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        total = len(dataset)
        self.num_samples = total // num_replicas if drop_last else math.ceil(total / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        total = len(self.dataset)
        order = list(range(total))
        if self.shuffle:
            order = Generator().manual_seed(self.seed + self.epoch).permutation(total).tolist()
        everybodys = list(islice(cycle(order), self.total_size))  # padded with the first ones
        return iter(everybodys[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which seeds the shuffling in all processes alike."""
        self.epoch = epoch
