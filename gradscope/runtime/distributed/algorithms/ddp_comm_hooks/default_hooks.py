"""Hooks that average a bucket over all ranks, and send it in fewer bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.dtypes.dtypes import float16
from gradscope.runtime.distributed.calls.collectives import all_reduce
from gradscope.runtime.distributed.groups import ProcessGroup, resolved
from gradscope.runtime.futures import Future

__all__ = ["allreduce_hook", "fp16_compress_hook", "fp16_compress_wrapper"]

Hook = Callable[[Any, Any], Any]


def _averaged(group: ProcessGroup | None, tensor: Any) -> Future:
    """A future of the mean of a tensor over all ranks; the tensor is used for it."""
    tensor.div_(resolved(group).size())
    work = all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """Average a bucket, as without a hook."""
    return _averaged(process_group, bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """Average a bucket in half precision."""
    buffer = bucket.buffer()
    return _averaged(process_group, buffer.to(float16)).then(
        lambda done: buffer.copy_(done.value())
    )


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the bucket in half precision."""

    def fp16_compress_wrapper_hook(hook_state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(float16))
        return hook(hook_state, bucket).then(lambda done: buffer.copy_(done.value()))

    return fp16_compress_wrapper_hook
