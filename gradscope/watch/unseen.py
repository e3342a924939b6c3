"""Looking at tensors, and being called, without the program seeing it.

A program may stand in for functions of tensors: by `__torch_function__` of a mode or a subclass, by
a mode with `__torch_dispatch__`. It would count our looks among its own calls. And it may print the
traceback of an error that went through us, where we have no part in it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

_modes, _WithoutFunctions = torch._C._len_torch_dispatch_stack, torch._C.DisableTorchFunction


def unseen() -> AbstractContextManager[object]:
    """Inside, this thread's looks at tensors are nobody's but ours."""
    if not _modes():
        return _WithoutFunctions()  # type: ignore[no-any-return]
    both = ExitStack()
    both.enter_context(_WithoutFunctions())
    both.enter_context(_disable_current_modes())
    return both


LISTS = ("get_ignored_functions", "get_testing_overrides", "get_overridable_functions",
         "_get_overridable_functions", "get_tensor_methods", "_get_tensor_methods")  # fmt: skip
"""Functions of `torch.overrides` that remember what functions there were when first asked."""


def stands_for(own: Any, ours: Any) -> None:
    """A function stands in for one of PyTorch's; None: it does no longer.

    Compilers of scripts know functions by their id(), and subclasses of tensors those properties
    that are not to become theirs.
    """
    table = torch.jit._builtins._get_builtin_table()
    known = table.get(id(own))
    if known is None:
        table.pop(id(ours), None)
    else:
        table[id(ours)] = known
    plain = torch.overrides.get_default_nowrap_functions()  # the first time nothing stands in yet
    if isinstance(ours, property):
        if own is None:
            plain.discard(ours.__get__)
        elif ours.stands_for.__get__ in plain:  # type: ignore[attr-defined]
            plain.add(ours.__get__)
    for name in LISTS:
        forget = getattr(getattr(torch.overrides, name, None), "cache_clear", None)
        if forget is not None:
            forget()
