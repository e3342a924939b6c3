"""`torch.autograd.forward_ad`: forward mode, derivatives computed along with values."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradscope.runtime.core.autograd.forward import forward_grad
from gradscope.runtime.core.autograd.forward.forward_grad import ForwardADLevel
from gradscope.runtime.core.autograd.modes.grad_mode import Decorating
from gradscope.runtime.core.errors.engine import dual_tensors as errors
from gradscope.runtime.core.state.thread import local

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_current_level = -1
"""The open level; -1 if none is open."""


def enter_dual_level() -> int:
    """Open a level, in which tensors may have tangents. There is only one: it returns 0."""
    global _current_level  # noqa: PLW0603  (PyTorch's name, which programs read)
    ForwardADLevel().enter()
    _current_level = 0
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level, and release all tangents created in it."""
    global _current_level  # noqa: PLW0603
    if level is None:
        level = _current_level
    if level != _current_level:
        raise errors.exit_of_another(level, _current_level)
    if ForwardADLevel.open is None:
        raise errors.nothing_to_exit()
    ForwardADLevel.open.exit()
    _current_level = level - 1


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A view of `tensor` with this tangent, which is not copied if its memory layout matches."""
    if level is None:
        level = _current_level
    if level < 0:
        raise errors.no_level()
    for what, given in (("primal", tensor), ("tangent", tangent)):
        if not (given.is_floating_point() or given.is_complex()):
            raise errors.kind(what, given)
    if level != 0:
        raise errors.no_such_level("_make_dual")
    return forward_grad.make_dual(tensor, tangent)


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a dual tensor."""

    primal: Any
    tangent: Any


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """A view of the tensor without its tangent, and the tangent; None if it has none."""
    if level is None:
        level = _current_level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    tangent = forward_grad.fw_grad(tensor)
    if level != 0 and tangent is not None:
        raise errors.no_such_level("_fw_primal")
    return UnpackedDualTensor(forward_grad.fw_primal(tensor), tangent)


class dual_level(Decorating):  # noqa: N801  (PyTorch's names, here and below)
    """Open a level for a block or a function."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def _is_fwd_grad_enabled() -> bool:
    return local.state.fw_grad_enabled


class _set_fwd_grad_enabled(Decorating):  # noqa: N801
    """Switch forward mode on or off; as a context manager, restore it at the end."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.before = local.state.fw_grad_enabled
        _switch(self.mode)

    def clone(self) -> Any:
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _switch(self.before)


def _switch(mode: bool) -> None:
    local.state.fw_grad_enabled = mode
    local.state.refresh()
