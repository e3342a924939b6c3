"""Reads tensors, and is called, without the program noticing.

A program may override functions of tensors: with `__torch_function__` of a mode or a subclass, or
with a mode with `__torch_dispatch__`. It would count our reads among its own calls.
`torch.jit.trace` would record them: it traces twice, and fails if the second trace differs. And a
program may print the traceback of an error that passed through our frames, which should not appear
there.
"""

from __future__ import annotations

import platform
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import SavedTensor
from torch.utils._python_dispatch import _disable_current_modes

_modes, _WithoutFunctions = torch._C._len_torch_dispatch_stack, torch._C.DisableTorchFunction
_trace, _set_trace = torch._C._get_tracing_state, torch._C._set_tracing_state


def unseen() -> AbstractContextManager[object]:
    """A context in which this thread's reads of tensors are invisible to the program."""
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


def library(name: str) -> Path | None:
    """The file of one of PyTorch's libraries, as `torch_cpu`; None: there is none."""
    folder = Path(torch.__file__).parent / "lib"
    files = (path for path in folder.glob(f"*{name}.*") if path.suffix in LIBRARIES)
    return next(files, None)


LIBRARIES = {".so", ".dylib", ".dll"}


LISTS = ("get_ignored_functions", "get_testing_overrides", "get_overridable_functions",
         "_get_overridable_functions", "get_tensor_methods", "_get_tensor_methods")  # fmt: skip
"""Functions of `torch.overrides` that cache the functions that existed at the first call."""


def stands_for(own: Any, ours: Any) -> None:
    """Called when a stand-in replaces a function of PyTorch; None: it no longer does.

    TorchScript identifies functions by their id().
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
"""Whether a saved value shows if a hook has packed it: otherwise only unpacking would show it."""

SAVED_UNSHOWN = "saved values"

CALLS_UNSEEN = f"calls of modules: PyTorch {torch.__version__} calls them in an unknown way"

SHOWS_INPUTS = hasattr(torch._C._FunctionBase, "_input_metadata")
"""Whether nodes show the metadata of their inputs, which are the results of their calls."""

INPUTS_UNSHOWN = "shapes, dtypes and devices of results"


class UnknownBuildError(Exception):
    """Something is not at the expected location in PyTorch's memory."""


LISTED = {("linux", "x86_64")}
"""Systems and processors with machine code that runs inside PyTorch.

The way a C++ function returns an object differs: on x86-64 the caller passes a hidden first
argument, on aarch64 a separate register. Code for one would write to a wrong address on the other,
so it runs only where it is known and tested; elsewhere PyTorch's public hooks are used.
"""


def why_not() -> str:
    """Why machine code cannot run inside PyTorch on this machine; "": it can."""
    here = sys.platform, platform.machine()
    return "" if here in LISTED else f"gradscope has no machine code for {here[1]} on {here[0]} yet"


def in_words(error: Exception) -> str:
    """Why machine code cannot be used, in words for readers of the trace."""
    if isinstance(error, ImportError | OSError):
        return f"{type(error).__name__}: {error}"
    where = f"{platform.system()}, {platform.machine()}"
    return f"gradscope has no machine code for PyTorch {torch.__version__} ({where}) yet"
