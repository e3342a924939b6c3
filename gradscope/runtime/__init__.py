"""A tensor library with PyTorch's interface, on NumPy: `import gradscope.runtime as torch`.

Operations are declared in `core.ops`; their functions are available here under their names. Missing
names raise an error with the line of the program that used them.
"""

from __future__ import annotations

import math
from importlib import import_module
from types import ModuleType
from typing import Any

from gradscope.runtime import autograd as autograd, fast as _fast, random as random
from gradscope.runtime.compiler import compile as compile
from gradscope.runtime.core import ops as _tables
from gradscope.runtime.core.autograd import tensor_methods
from gradscope.runtime.core.autograd.engine import accumulate_grad, run_by_hand
from gradscope.runtime.core.autograd.forward import jvp
from gradscope.runtime.core.autograd.modes.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
    set_anomaly_enabled as set_anomaly_enabled,
)
from gradscope.runtime.core.autograd.modes.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from gradscope.runtime.core.devices.devices import (
    device as device,
    get_default_device as get_default_device,
    set_default_device as set_default_device,
)
from gradscope.runtime.core.dispatch.modes import protocol
from gradscope.runtime.core.dispatch.overrides import public
from gradscope.runtime.core.dtypes.dtypes import (
    NAMES,
    can_cast as can_cast,
    dtype as dtype,
    get_default_dtype as get_default_dtype,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
)
from gradscope.runtime.core.dtypes.limits import finfo as finfo, iinfo as iinfo
from gradscope.runtime.core.dtypes.memory_formats import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    memory_format as memory_format,
    preserve_format as preserve_format,
)
from gradscope.runtime.core.dtypes.names import typename as typename
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.rows import offered as _offered
from gradscope.runtime.core.state.settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode as get_deterministic_debug_mode,
    get_float32_matmul_precision as get_float32_matmul_precision,
    get_num_interop_threads as get_num_interop_threads,
    get_num_threads as get_num_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    layout as layout,
    set_default_tensor_type as set_default_tensor_type,
    set_deterministic_debug_mode as set_deterministic_debug_mode,
    set_float32_matmul_precision as set_float32_matmul_precision,
    set_flush_denormal as set_flush_denormal,
    set_num_interop_threads as set_num_interop_threads,
    set_num_threads as set_num_threads,
    strided as strided,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from gradscope.runtime.core.state.signal_handlers import run_between_operations
from gradscope.runtime.core.state.warned import (
    is_warn_always_enabled as is_warn_always_enabled,
    set_warn_always as set_warn_always,
)
from gradscope.runtime.core.tensors import copying
from gradscope.runtime.core.tensors.default_generator import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from gradscope.runtime.core.tensors.making.legacy import LEGACY_TYPES
from gradscope.runtime.core.tensors.making.more_factories import (
    asarray as asarray,
    empty_strided as empty_strided,
    scalar_tensor as scalar_tensor,
)
from gradscope.runtime.core.tensors.memory.reuse import keep_freed_memory
from gradscope.runtime.core.tensors.printing import set_printoptions as set_printoptions
from gradscope.runtime.core.tensors.questions import (
    get_device as get_device,
    get_device_module as get_device_module,
    is_complex as is_complex,
    is_conj as is_conj,
    is_floating_point as is_floating_point,
    is_inference as is_inference,
    is_neg as is_neg,
    is_nonzero as is_nonzero,
    is_same_size as is_same_size,
    is_signed as is_signed,
    is_storage as is_storage,
    is_tensor as is_tensor,
    numel as numel,
    result_type as result_type,
)
from gradscope.runtime.core.tensors.saved import saved_attributes as shown
from gradscope.runtime.core.tensors.size import Size as Size
from gradscope.runtime.core.tensors.tensor.tensor import Tensor as Tensor
from gradscope.runtime.version import __version__ as __version__

_GIVING = (
    _fast,
    accumulate_grad,
    copying,
    jvp,
    protocol,
    public,
    run_by_hand,
    shown,
    tensor_methods,
)
"""Modules that fill in functions of lower packages (Note [Calls upwards] in state/upward.py)."""

keep_freed_memory()
_tables.load()
globals().update(NAMES, **LEGACY_TYPES, **_offered.offered(""))

from gradscope.runtime.core.tensors.making.factories import (  # noqa: E402 -- after the module `tensor`, whose name it takes
    as_tensor as as_tensor,
    empty as empty,
    empty_like as empty_like,
    from_numpy as from_numpy,
    full as full,
    full_like as full_like,
    ones as ones,
    ones_like as ones_like,
    tensor as tensor,
    zeros as zeros,
    zeros_like as zeros_like,
)
from gradscope.runtime.core.tensors.making.sequences import (  # noqa: E402
    arange as arange,
    eye as eye,
    linspace as linspace,
    logspace as logspace,
    range as range,
)

inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None

# Imported on first use: a script that only computes needs none of them.
LATE = (
    "_C",
    "__config__",
    "_dynamo",
    "_linalg_utils",
    "_lobpcg",
    "_utils",
    "_VF",
    "accelerator",
    "amp",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "distributed",
    "distributions",
    "fft",
    "func",
    "functional",
    "futures",
    "hub",
    "jit",
    "library",
    "linalg",
    "masked",
    "mps",
    "multiprocessing",
    "nn",
    "ops",
    "optim",
    "overrides",
    "profiler",
    "return_types",
    "serialization",
    "signal",
    "sim",
    "special",
    "testing",
    "torch_version",
    "types",
    "utils",
    "version",
    "xpu",
)

AUTOCAST = (
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
)
_MEMORY = "core.tensors.memory"
LATE_FUNCTIONS = {
    "DispatchKey": "_C",
    "DispatchKeySet": "_C",
    "GradScaler": "amp",
    "OutOfMemoryError": "cuda",
    "TypedStorage": f"{_MEMORY}.typed_storage",
    "UntypedStorage": f"{_MEMORY}.typed_storage",
    "vmap": "func",
    "from_dlpack": f"{_MEMORY}.exchange",
    "from_file": f"{_MEMORY}.exchange",
    "frombuffer": f"{_MEMORY}.exchange",
    "load": "serialization",
    "lobpcg": "_lobpcg",
    "save": "serialization",
    "to_dlpack": f"{_MEMORY}.exchange",
    **dict.fromkeys(AUTOCAST, "amp.autocast_mode"),
    **dict.fromkeys(
        ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"),
        "signal.classic",
    ),
}

run_between_operations()


def __getattr__(name: str) -> Any:
    if name in LATE:
        return import_module(f"{__name__}.{name}")
    if name in LATE_FUNCTIONS:
        return getattr(import_module(f"{__name__}.{LATE_FUNCTIONS[name]}"), name)
    raise missing.no_module_attribute("torch", name, __dir__())


def __dir__() -> list[str]:
    own = {name for name, value in globals().items() if isinstance(value, ModuleType)}
    return sorted(({*globals()} - own) | {*LATE, *LATE_FUNCTIONS, "autograd", "random"})
