"""Autocast on the CPU: which operations cast their inputs, and how.

# Note [Autocast off the fast path]
Without autocast, calls have no check for it. While it is on, calls take the general path
(`call._call`), which casts by the operation's list. Composite functions that cast as a whole
(`linear`: its weight first, then the transpose) get other code when autocast is entered for the
first time, as described in Note [Gates].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from types import FunctionType
from typing import Any

from gradscope.runtime.core.dispatch.overrides.gates import behind, put_before
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS, NN_FUNCTIONS
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.forking import renewed
from gradscope.runtime.core.state.frames import WRITTEN
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

LOWER = frozenset({
    "_addmm_activation", "_convolution", "addbmm", "addmm", "baddbmm", "bmm", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
    "linalg.vecdot", "linalg_vecdot", "linear", "matmul", "mm", "__matmul__", "prelu",
    "_prelu_kernel", "scaled_dot_product_attention",
})  # fmt: skip
"""Operations in the lower precision."""

SINGLE = frozenset({
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cdist", "cholesky", "cholesky_inverse", "cholesky_solve",
    "cosine_embedding_loss", "cross_entropy", "ctc_loss", "fractional_max_pool2d",
    "fractional_max_pool3d", "geqrf", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "grid_sample", "hinge_embedding_loss", "huber_loss", "inverse", "kl_div", "l1_loss", "lu_solve",
    "margin_ranking_loss", "max_pool3d", "max_unpool2d", "max_unpool3d", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "nanquantile", "nll_loss", "nll_loss2d", "orgqr",
    "ormqr", "pinverse", "poisson_nll_loss", "polar", "prod", "qr", "quantile", "reflection_pad1d",
    "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "smooth_l1_loss", "soft_margin_loss", "stft", "svd", "trace", "triangular_solve",
    "triplet_margin_loss", "view_as_complex",
    *(f"linalg{dot}{name}" for dot in "._" for name in (
        "cholesky", "cholesky_ex", "cond", "eig", "eigh", "eigvals", "eigvalsh",
        "householder_product", "inv", "inv_ex", "lstsq", "matrix_rank", "qr", "solve", "svd",
        "svdvals", "tensorinv", "tensorsolve",
    )),
    *(f"fft{dot}{name}" for dot in "._" for name in (
        "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2",
        "irfftn", "rfft", "rfft2", "rfftn",
    )),
})  # fmt: skip
"""Operations in float32."""

WIDEST = frozenset({"cat", "index_copy", "stack"})
"""Operations in the widest dtype of their inputs."""

LISTED = LOWER | SINGLE | WIDEST
DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}


class Settings:
    """One thread's autocast settings, and its cached casts of leaves."""

    def __init__(self) -> None:
        self.enabled = dict.fromkeys(DEFAULTS, False)
        self.dtypes = dict(DEFAULTS)
        self.caches = True
        self.nesting = 0
        self.kept: dict[int, tuple[Any, Any]] = {}

    def tell(self) -> None:
        """Update whether calls of this thread cast."""
        state = local.state
        state.autocast = self if self.enabled["cpu"] else None
        state.refresh()

    def cast(self, value: Any, to: Any) -> Any:
        """A floating point tensor in another dtype; also lists of them; anything else unchanged."""
        if isinstance(value, list | tuple):
            return type(value)(self.cast(each, to) for each in value)
        if not _eligible(value) or value.dtype == to:
            return value
        keeps = (
            self.caches
            and to is self.dtypes["cpu"]
            and value.dtype is dtypes.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
        )
        if not keeps:
            return value.to(to)
        found = self.kept.get(id(value))
        if found is None:
            found = self.kept[id(value)] = (value, value.to(to))
        return found[1]

    def dtype_for(self, name: str, values: Any) -> Any:
        """The dtype in which a listed function computes."""
        if name in LOWER:
            return self.dtypes["cpu"]
        if name in SINGLE:
            return dtypes.float32
        found = [each.dtype for each in _tensors(values) if _eligible(each)]
        return dtypes.float32 if dtypes.float32 in found else found[0] if found else None

    def arguments(self, op: Operation, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of an operation's call, cast by its list."""
        name = op.base_name
        if name not in LISTED:
            return values
        to = self.dtype_for(name, values)
        return values if to is None else self.cast_all(values, to)

    def cast_all(self, values: tuple[Any, ...], to: Any) -> tuple[Any, ...]:
        """All arguments cast, the last one first, as PyTorch numbers the nodes of its casts."""
        return tuple(self.cast(value, to) for value in reversed(values))[::-1]


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.dtype is not dtypes.float64
        and value.device.type == "cpu"
    )


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        else:
            yield value


@contextmanager
def _without(state: Any) -> Iterator[None]:
    """Switch casts off for the parts of a function that was cast."""
    settings, state.autocast = state.autocast, None
    state.refresh()
    try:
        yield
    finally:
        state.autocast = settings
        state.refresh()


class _Whole:
    """A composite function that casts as a whole."""

    def __init__(self, name: str, implementation: Callable[..., Any]) -> None:
        self.name = name
        self.implementation = implementation

    @layout_only
    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = local.state
        settings = state.autocast
        if settings is None or state.formula:
            return self.implementation(*args, **kwargs)
        to = settings.dtype_for(self.name, (*args, *kwargs.values()))
        if to is not None:
            named = settings.cast_all(tuple(kwargs.values()), to)
            args = settings.cast_all(args, to)
            kwargs = dict(zip(kwargs, named, strict=True))
        with _without(state):
            return self.implementation(*args, **kwargs)


_lock = renewed(RLock())
_put_up: set[int] = set()


def put_up() -> None:
    """Install the casting code of composite functions."""
    with _lock:
        for table in (NN_FUNCTIONS, FUNCTIONS, METHODS):
            for name in LISTED & table.keys():
                function = table[name]
                plain = isinstance(function, FunctionType) and not hasattr(function, "op")
                if plain and id(function) not in _put_up:
                    _put_up.add(id(function))
                    file = f"{WRITTEN}{name}, cast as a whole>"
                    put_before(behind(function), partial(_Whole, name), file)
