"""Reports collectives to a recording, and tensors that they have written."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.distributed.exchange.progress import progress

GOES_ON = ", asynchronous"


@contextmanager
def told(
    name: str,
    group: Any,
    tensor: Any = None,
    *,
    goes_on: bool = False,
    caller: str = "",
    makes: tuple[int, ...] = (),
) -> Iterator[None]:
    """Report a call of a collective, of the function that calls the caller, as a span.

    `makes`: the ranks of the group that it makes.
    """
    here = probe.here
    if here is None:
        yield
        return
    progress.settle_buckets()  # so that collectives are recorded in the order of their calls
    token = here.span_begins(name + GOES_ON * goes_on, "collective")
    try:
        frame = sys._getframe(2)  # of the generator's caller: the function with this name
        here.exchanges(token, *_described(group, tensor), frame, name, caller, makes)
        yield
    finally:
        here.span_ends(token)


def _described(group: Any, tensor: Any) -> tuple[Any, ...]:
    """Name, description and members of a group; shape and dtype of a tensor."""
    if group is None:
        return (None, *_kind(tensor))
    return ((group.group_name, group.group_desc, group.members), *_kind(tensor))


def _kind(tensor: Any) -> tuple[Sequence[int], Any]:
    return ((), None) if tensor is None else (tuple(tensor._array.shape), tensor._array.dtype)


def wrote(*tensors: Any) -> None:
    """Report that these tensors have new values. PyTorch does not count that as a new version."""
    here = probe.here
    if here is not None and here.look is not None:
        for tensor in tensors:
            here.look.lent(tensor._array)


def replicated(group: Any, parameters: Sequence[Any]) -> None:
    """Report that parameters are kept equal on all ranks of a group."""
    if probe.here is not None:
        probe.here.replicated(_described(group, None)[0], parameters)


class ToldBucket:
    """Reports a bucket of DistributedDataParallel, and its all-reduce on another thread."""

    def __init__(
        self, number: int, group: Any, flat: Any, parameters: Sequence[Any], *, reduces: bool
    ) -> None:
        """The bucket is ready. `reduces`: an all-reduce will begin."""
        self._here = here = probe.here
        self._token: Any = None
        if here is not None:
            described = (group.group_name, group.group_desc, group.members)
            frame = sys._getframe(1)
            self._token = here.bucket_ready(number, described, flat, parameters, reduces, frame)

    def begins(self) -> None:
        if self._token is not None:
            self._here.bucket_reduce_begins(self._token)

    def ends(self) -> None:
        if self._token is not None:
            self._here.bucket_reduce_ends(self._token)
