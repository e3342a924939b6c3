"""Looking at tensors, and being called, without the program seeing it.

A program may stand in for functions of tensors: by `__torch_function__` of a mode or a subclass, by
a mode with `__torch_dispatch__`. It would count our looks among its own calls. `torch.jit.trace`
would record them: it traces twice, and fails if the second time differs. And a program may print
the traceback of an error that went through us, where we have no part in it.
"""

from __future__ import annotations

import platform
import sys
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch._C._autograd import SavedTensor
from torch.utils._python_dispatch import _disable_current_modes

_modes, _WithoutFunctions = torch._C._len_torch_dispatch_stack, torch._C.DisableTorchFunction
_trace, _set_trace = torch._C._get_tracing_state, torch._C._set_tracing_state


def unseen() -> AbstractContextManager[object]:
    """Inside, this thread's looks at tensors are nobody's but ours."""
    modes, trace = _modes(), _trace()
    if not modes and trace is None:
        return _WithoutFunctions()  # type: ignore[no-any-return]
    all_ = ExitStack()
    all_.enter_context(_WithoutFunctions())
    if modes:
        all_.enter_context(_disable_current_modes())
    if trace is not None:
        _set_trace(None)
        all_.callback(_set_trace, trace)
    return all_


LISTS = ("get_ignored_functions", "get_testing_overrides", "get_overridable_functions",
         "_get_overridable_functions", "get_tensor_methods", "_get_tensor_methods")  # fmt: skip
"""Functions of `torch.overrides` that remember what functions there were when first asked."""


def stands_for(own: Any, ours: Any) -> None:
    """A function stands in for one of PyTorch's; None: it does no longer.

    Compilers of scripts know functions by their id().
    """
    table = torch.jit._builtins._get_builtin_table()
    known = table.get(id(own))
    if known is None:
        table.pop(id(ours), None)
    else:
        table[id(ours)] = known
    for name in LISTS:
        forget = getattr(getattr(torch.overrides, name, None), "cache_clear", None)
        if forget is not None:
            forget()


SHOWS_SAVED = hasattr(SavedTensor, "unpack_hook") and hasattr(SavedTensor, "data")
"""Whether a saved value says whether a hook has packed it: else only unpacking it would tell."""

SAVED_UNSHOWN = f"what nodes save: PyTorch {torch.__version__} does not show it unpacked"

CALLS_UNSEEN = f"calls of modules: PyTorch {torch.__version__} calls them in a way of its own"

SHOWS_INPUTS = hasattr(torch._C._FunctionBase, "_input_metadata")
"""Whether nodes say what they take, which is what their calls have returned."""

INPUTS_UNSHOWN = (
    f"shapes, dtypes and devices of results: PyTorch {torch.__version__} does not show them"
)


class UnknownBuildError(Exception):
    """Something in PyTorch's memory is not where it was expected."""


LISTED = {("linux", "x86_64")}
"""Systems and processors with machine code that runs inside PyTorch.

How a C++ function hands back an object differs: on x86-64 the caller passes a hidden first
argument, on aarch64 a register of its own. Code for the one would write to a wrong address on the
other, so it runs only where it is known and tested; elsewhere PyTorch's public hooks serve.
"""


def why_not() -> str:
    """Why machine code may not run inside PyTorch here; "": it may."""
    here = sys.platform, platform.machine()
    return "" if here in LISTED else f"gradscope has no machine code for {here[1]} on {here[0]} yet"


def in_words(error: Exception) -> str:
    """Why machine code does not serve, for who reads a recording."""
    if isinstance(error, ImportError | OSError):
        return f"{type(error).__name__}: {error}"
    where = f"{platform.system()}, {platform.machine()}"
    return f"gradscope has no machine code for PyTorch {torch.__version__} ({where}) yet"
