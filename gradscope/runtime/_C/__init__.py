"""`torch._C`: the parts of PyTorch's internals that programs use."""

from __future__ import annotations

import weakref
from typing import Any

from gradscope.runtime._C import _autograd, _functions, _nn
from gradscope.runtime._C._engine import _EngineBase as _ImperativeEngine
from gradscope.runtime.autograd import forward_ad
from gradscope.runtime.autograd.forward_ad import _is_fwd_grad_enabled
from gradscope.runtime.autograd.graph import increment_version as _increment_version
from gradscope.runtime.core.autograd.engine.current_task import (
    current_autograd_node as _current_autograd_node,
    current_graph_task_id as _current_graph_task_id,
    execution_order as _current_graph_task_execution_order,
    will_engine_execute_node as _will_engine_execute_node,
)
from gradscope.runtime.core.autograd.modes import grad_mode
from gradscope.runtime.core.autograd.modes.grad_mode import is_grad_enabled
from gradscope.runtime.core.dispatch.operators.generated import (
    below_autograd as _AutoDispatchBelowAutograd,
)
from gradscope.runtime.core.dispatch.operators.key_dispatch import (
    excluded,
    included as _IncludeDispatchKeyGuard,
    keys_of_tensor as _dispatch_keys,
    left_out as _ExcludeDispatchKeyGuard,
)
from gradscope.runtime.core.dispatch.operators.keys import (
    DispatchKeySet,
    Keys as DispatchKey,
    after_autograd,
)
from gradscope.runtime.core.dispatch.operators.operator import Operator
from gradscope.runtime.core.dispatch.operators.schema import parse_schema
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.overriding import (
    all_disabled as DisableTorchFunction,
    disabled as DisableTorchFunctionSubclass,
    leave_alone as _disabled_torch_function_impl,
)

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "_AutoDispatchBelowAutograd",
    "_ExcludeDispatchKeyGuard",
    "_ImperativeEngine",
    "_IncludeDispatchKeyGuard",
    "_WeakTensorRef",
    "_after_autograd_keyset",
    "_autograd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_disabled_torch_function_impl",
    "_dispatch_dump_table",
    "_dispatch_has_kernel_for_dispatch_key",
    "_dispatch_keys",
    "_dispatch_tls_local_exclude_set",
    "_dispatch_tls_local_include_set",
    "_functions",
    "_get_privateuse1_backend_name",
    "_increment_version",
    "_is_fwd_grad_enabled",
    "_is_torch_function_enabled",
    "_is_torch_function_mode_enabled",
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
    "_nn",
    "_set_fwd_grad_enabled",
    "_set_grad_enabled",
    "_will_engine_execute_node",
    "has_lapack",
    "is_grad_enabled",
    "parse_schema",
]

_after_autograd_keyset = after_autograd()
has_lapack = True  # NumPy brings its own


def _dispatch_tls_local_include_set() -> DispatchKeySet:
    return DispatchKeySet(local.state.keys_included)


def _dispatch_tls_local_exclude_set() -> DispatchKeySet:
    return DispatchKeySet(excluded(local.state))


def _dispatch_dump_table(name: str) -> str:
    """The kernels of an operator by dispatch key, one line each."""
    return _operator(name).table()


def _dispatch_has_kernel_for_dispatch_key(name: str, key: Any) -> bool:
    return getattr(DispatchKey, str(key)) in _operator(name).kernels


def _operator(name: str) -> Operator:
    if name.startswith("aten::"):
        from gradscope.runtime.core.dispatch.modes.aten import aten
        from gradscope.runtime.core.dispatch.operators.built_in import operator_of

        base, _, overload = name.removeprefix("aten::").partition(".")
        return operator_of(getattr(getattr(aten, base), overload or "default").rows[0])
    found = Operator.known.get(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return found


def _is_torch_function_enabled() -> bool:
    return not local.state.overrides_disabled


def _is_torch_function_mode_enabled() -> bool:
    return bool(local.state.function_modes)


def _len_torch_function_stack() -> int:
    return len(local.state.function_modes)


def _len_torch_dispatch_stack() -> int:
    return len(local.state.dispatch_modes)


def _set_grad_enabled(enabled: Any) -> None:
    if not isinstance(enabled, bool):
        kind = type(enabled).__name__
        raise TypeError(
            f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {kind}"
        )
    grad_mode.set_grad_enabled(enabled)


def _set_fwd_grad_enabled(enabled: Any) -> None:
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    forward_ad._set_fwd_grad_enabled(enabled)


def _get_privateuse1_backend_name() -> str:
    """The default name of a custom backend."""
    return "privateuseone"


class _WeakTensorRef:
    """A weak reference to a tensor, which tells whether it is still alive."""

    def __init__(self, tensor: Any) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        return self._reference() is None


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._C", name, __all__)
