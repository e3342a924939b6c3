"""Grad mode for a block, a function or a generator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, Self

from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn


class Decorating:
    """A context manager that can also decorate functions and generators."""

    def clone(self) -> Any:
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
            )
            function.__init__ = self(function.__init__)  # type: ignore[method-assign]
            return function
        if inspect.isgeneratorfunction(function):
            return _decorated_generator(self, function)

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return decorated


def _decorated_generator(mode: Decorating, function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter the mode at each resume and leave it at each yield."""

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        with mode.clone():
            try:
                value = next(generator)
            except StopIteration as stop:
                return stop.value
        while True:
            try:
                sent = yield value
            except GeneratorExit:
                with mode.clone():
                    generator.close()
                raise
            except BaseException as error:
                with mode.clone():
                    try:
                        value = generator.throw(error)
                    except StopIteration as stop:
                        return stop.value
            else:
                with mode.clone():
                    try:
                        value = generator.send(sent)
                    except StopIteration as stop:
                        return stop.value

    return decorated


def _set_grad_enabled(mode: bool) -> None:
    """Set grad mode. A function mode sees this call."""
    state = local.state
    state.grad_enabled = mode and not (state.inference or state.below_autograd)
    state.grad_wanted = mode


class _GradMode(Decorating):
    enabled: bool

    def __enter__(self) -> None:
        self.before = _switched(self.enabled)

    def __exit__(self, *error: object) -> None:
        state = local.state
        if state.function_modes:
            _set_grad_enabled(self.before[1])
        else:
            state.grad_enabled, state.grad_wanted = self.before


def _switched(enabled: bool) -> tuple[bool, bool]:
    """Set grad mode, and return the old one. See Note [Inference tensors]."""
    state = local.state
    before = (state.grad_enabled, state.grad_wanted)
    if state.function_modes:
        _set_grad_enabled(enabled)
    else:
        state.grad_enabled = enabled and not (state.inference or state.below_autograd)
        state.grad_wanted = enabled
    return before


class no_grad(_GradMode):  # noqa: N801  (PyTorch's names, here and below)
    """Record no operations inside."""

    enabled = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Self:
        made = super().__new__(cls)
        return made if function is None else made(function)  # type: ignore[return-value]


class enable_grad(_GradMode):  # noqa: N801
    """Record operations inside, also within `no_grad`."""

    enabled = True

    def __new__(cls, function: Callable[..., Any] | None = None) -> Self:
        made = super().__new__(cls)
        return made if function is None else made(function)  # type: ignore[return-value]


class set_grad_enabled(_GradMode):  # noqa: N801
    """Set grad mode; as a context manager, restore it at the end."""

    def __init__(self, mode: bool) -> None:
        self.enabled = mode
        self.before = _switched(mode)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)

    def __enter__(self) -> None:
        _switched(self.enabled)

    def clone(self) -> Any:
        return set_grad_enabled(self.enabled)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.enabled})"


class set_multithreading_enabled(Decorating):  # noqa: N801
    """Choose whether nodes of devices run on their own threads; effective at once."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before = local.state.multithreading
        local.state.multithreading = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        local.state.multithreading = self.before

    def clone(self) -> Any:
        return set_multithreading_enabled(self.mode)


def is_multithreading_enabled() -> bool:
    return bool(local.state.multithreading)


class inference_mode(Decorating):  # noqa: N801
    """Record neither operations nor versions inside. `mode=False`: normal mode."""

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.mode = True
        return made(mode)

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)

    def __enter__(self) -> None:
        state = local.state
        self.before = (
            state.inference, state.grad_enabled, state.grad_wanted, state.fw_grad_enabled
        )  # fmt: skip
        state.inference = self.mode
        state.grad_enabled = state.grad_wanted = state.fw_grad_enabled = not self.mode
        state.refresh()

    def __exit__(self, *error: object) -> None:
        state = local.state
        state.inference, state.grad_enabled, state.grad_wanted, state.fw_grad_enabled = self.before
        state.refresh()

    def clone(self) -> Any:
        return inference_mode(self.mode)


def is_grad_enabled() -> bool:
    state = local.state
    below = state.inference or state.below_autograd
    return state.grad_wanted if below else state.grad_enabled


def is_inference_mode_enabled() -> bool:
    return local.state.inference


class _force_original_view_tracking(Decorating):  # noqa: N801
    """Choose whether views are replayed for a new history; effective at once."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before = local.state.view_replay
        local.state.view_replay = mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)

    def __enter__(self) -> None:
        local.state.view_replay = self.mode

    def __exit__(self, *error: object) -> None:
        local.state.view_replay = self.before

    def clone(self) -> Any:
        return _force_original_view_tracking(self.mode)


def is_view_replay_enabled() -> bool:
    return bool(local.state.view_replay)


class _unsafe_preserve_version_counter(Decorating):  # noqa: N801
    """Hide in-place writes from the versions of these tensors. Gradients may become wrong."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors if isinstance(tensors, tuple | list) else (tensors,)
        if not isinstance(self.tensors, tuple) or not hasattr((*self.tensors, None)[0], "_version"):
            raise AssertionError("Expected tensors to be a tuple")
        self.before = [tensor._version for tensor in self.tensors]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for tensor, version in zip(self.tensors, self.before, strict=True):
            if tensor._versions is not None:
                tensor._versions.value = version
