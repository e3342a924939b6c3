"""Keeps compilers of frames, such as that of `torch.compile`, from compiling our own frames.

# Note [A frame of ours between two of a program's]
If a function cannot be compiled as a whole, PyTorch's compiler compiles each frame called from it
separately. It skips ours: a frame that is `uncompiled` runs unchanged, and the frames it calls are
compiled. Our work before and after runs with the compiler disabled. Inside a function that is
compiled as a whole, our frames are part of it, and check `torch.compiler.is_compiling()`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def _home() -> Any:
    """The PyTorch module with these functions; None: it is not imported yet."""
    parts = getattr(sys.modules.get("torch._C"), "_dynamo", None)
    return getattr(parts, "eval_frame", None)


def compiler_aside() -> Callable[[Any], Any]:
    """The function that sets this thread's frame compiler and returns the previous one."""
    return getattr(_home(), "set_eval_frame", _no_compiler)


def _no_compiler(callback: Any) -> Any:
    return callback


def uncompiled(function: Function) -> Function:
    """The same function; compilers ignore its frame, if PyTorch is imported by now."""
    home, code = _home(), getattr(function, "__code__", None)  # None: not a Python function
    if code is None:
        return function
    if hasattr(home, "skip_code"):  # before PyTorch 2.7
        home.skip_code(code)
    elif hasattr(home, "set_code_exec_strategy"):
        action = home._FrameAction
        home.set_code_exec_strategy(code, home._FrameExecStrategy(action.SKIP, action.DEFAULT))
    return function


def aside(function: Function) -> Function:
    """The same function, which runs with the compiler disabled."""
    take_off = compiler_aside()

    @uncompiled
    @wraps(function)
    def called(*given: Any, **more: Any) -> Any:
        compiler = take_off(None)
        try:
            return function(*given, **more)
        finally:
            take_off(compiler)

    return cast("Function", called)
