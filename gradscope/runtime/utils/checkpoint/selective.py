"""Selective checkpoints: save the results of some operations and recompute the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Self
from zlib import crc32

import numpy as np

from gradscope.runtime.core.dispatch.modes.aten import OpOverload, OpOverloadPacket
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.utils._python_dispatch import TorchDispatchMode
from gradscope.runtime.utils._pytree import tree_map

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]


class CheckpointPolicy(Enum):
    """What happens to an operation's result. Without a compiler, PREFER is the same as MUST.

    MUST_CPU_OFFLOAD saves the tensor where it is, which is the CPU.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)

SAC_IGNORED_OPS = frozenset({"aten.detach.default"})
"""Operations that no policy decides about, since autograd itself calls them."""


class SelectiveCheckpointContext:
    """Passed to a policy: whether the call is a recomputation, and its result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """A result of the first run, and its version then.

    Tensors inside a mode have separate version counters, so a write is detected by its effect.
    """

    __slots__ = ("digest", "val")

    def __init__(self, value: Any) -> None:
        self.val = value.detach() if isinstance(value, Tensor) else value
        self.digest = _digest(self.val)

    def read(self, *, written: bool) -> Any:
        """The value. If it was `written` to since, that must be allowed."""
        if not written and _digest(self.val) != self.digest:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        return self.val


def _digest(value: Any) -> int:
    return crc32(np.ascontiguousarray(value._array).data) if isinstance(value, Tensor) else 0


class _Read:
    """Replaces a result that the second run has read."""


Policy = Callable[..., Any]
Storage = dict[Any, list[Any]]
"""The results of each operation in the first run; None: to be recomputed."""


class _CachingTorchDispatchMode(TorchDispatchMode):  # PyTorch's names, here and below
    """The mode of the first run: saves results as the policy decides."""

    def __init__(self, policy_fn: Policy, storage: Storage) -> None:
        super().__init__()
        self.policy_fn = policy_fn
        self.storage = storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        if str(func) in SAC_IGNORED_OPS:
            return made
        context = SelectiveCheckpointContext(is_recompute=False, op_output=made)
        policy = self.policy_fn(context, func, *args, **kwargs)
        kept = policy if isinstance(policy, bool) else policy not in RECOMPUTED
        self.storage[func].append(tree_map(_Kept, made) if kept else None)
        return made


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The mode of the second run: returns the saved results."""

    def __init__(
        self, policy_fn: Policy, storage: Storage, allow_cache_entry_mutation: bool = False
    ) -> None:
        super().__init__()
        self.policy_fn = policy_fn
        self.storage = storage
        self.allow_cache_entry_mutation = allow_cache_entry_mutation
        self.calls: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> Self:
        self.calls.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func) in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        kept, number = self.storage.get(func, []), self.calls[func]
        self.calls[func] += 1
        if number >= len(kept):
            raise RuntimeError(
                f"{func} invocation index {number} encountered during backward but not found in "
                "storage."
            )
        found = kept[number]
        if found is _Read:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        if found is None:
            return func(*args, **(kwargs or {}))
        kept[number] = _Read
        written = self.allow_cache_entry_mutation
        return tree_map(lambda value: value.read(written=written), found)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[Any],
    allow_cache_entry_mutation: bool = False,
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """Contexts for `checkpoint(…, context_fn=…)`: save what a policy selects, or these operations.

    The policy is called in the first run with a context, the operation and its arguments. Saved
    tensors may be modified in place only with `allow_cache_entry_mutation`.
    """
    policy = policy_fn_or_list
    if isinstance(policy, list):
        policy = _policy_of(policy)
    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: Storage = defaultdict(list)
    again = _CachedTorchDispatchMode(policy, storage, allow_cache_entry_mutation)
    return _CachingTorchDispatchMode(policy, storage), again


def _policy_of(listed: list[Any]) -> Policy:
    for op in listed:
        if not isinstance(op, OpOverload):
            advice = (
                "Please update the OpOverloadPacket to a specific OpOverload.For example, if you "
                f"have `torch.ops.{op}`, change it to `torch.ops.{op}.default`."
                if isinstance(op, OpOverloadPacket)
                else ""
            )
            raise ValueError(
                f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. "
                f"{advice}"
            )

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if op in listed:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return policy
