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


def unseen() -> AbstractContextManager[object]:
    """Inside, this thread's looks at tensors are nobody's but ours."""
    if not torch._C._len_torch_dispatch_stack():
        return torch._C.DisableTorchFunction()  # type: ignore[no-any-return]
    both = ExitStack()
    both.enter_context(torch._C.DisableTorchFunction())
    both.enter_context(_disable_current_modes())
    return both


def stands_for(own: Any, ours: Any) -> None:
    """A function stands in for one of PyTorch's, which compilers of scripts know by its id()."""
    table = torch.jit._builtins._get_builtin_table()
    known = table.get(id(own))
    if known is None:
        table.pop(id(ours), None)
    else:
        table[id(ours)] = known
