"""`torch.utils.checkpoint`: recompute part of a forward during backward instead of saving it."""

from __future__ import annotations

from gradscope.runtime.utils.checkpoint.calls import (
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
)
from gradscope.runtime.utils.checkpoint.random_state import (
    DefaultDeviceType,
    get_device_states,
    set_device_states,
)
from gradscope.runtime.utils.checkpoint.reentrant import (
    CheckpointFunction,
    check_backward_validity,
    detach_variable,
)
from gradscope.runtime.utils.checkpoint.region import CheckpointError
from gradscope.runtime.utils.checkpoint.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _CachedTorchDispatchMode as _CachedTorchDispatchMode,
    _CachingTorchDispatchMode as _CachingTorchDispatchMode,
    create_selective_checkpoint_contexts,
)
from gradscope.runtime.utils.checkpoint.switches import (
    GraphExecGroup,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]
