"""Looking at tensors without the program's own modes and subclasses seeing it.

A program may stand in for functions of tensors: by `__torch_function__` of a mode or a subclass, by
a mode with `__torch_dispatch__`. It would count our looks among its own calls.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

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
