"""`debug=True`: reports the operations of both runs if they differ."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Self

from gradscope.runtime.core.state.frames import WRITTEN
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.overrides import TorchFunctionMode
from gradscope.runtime.utils.checkpoint.region import CheckpointError

_OURS: Final = (str(Path(__file__).absolute().parents[2]), WRITTEN)


class Log(TorchFunctionMode):
    """The operations of one run, with their arguments and lines."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        self.calls.clear()
        return super().__enter__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments = [_shown(a) for a in args] + [f"{k}={_shown(v)}" for k, v in kwargs.items()]
        self.calls.append((f"{_name(func)}({', '.join(arguments)})", _line()))
        return func(*args, **kwargs)

    def __str__(self) -> str:
        width = max((len(call) for call, _ in self.calls), default=0)
        return "".join(
            f"{number:5}  {call:{width}}  {line}\n"
            for number, (call, line) in enumerate(self.calls, 1)
        )


class Logs:
    """The operations of the forward, and of the last recomputation."""

    def __init__(self) -> None:
        self.forward = Log()
        self.again = Log()

    def contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """Two contexts: one logs operations of the forward, one those of the recomputation."""
        return self.forward, self.again

    def report(self, error: CheckpointError) -> CheckpointError:
        """The error with the operations of both runs added."""
        return CheckpointError(
            " An error happened while unpacking tensors; dumping logs of latest computation\n"
            "because `debug=True` was passed to `torch.utils.checkpoint.checkpoint()`.\n\n"
            f"Operations that ran in forward:\n{self.forward}\n"
            f"Operations that ran again in backward:\n{self.again}\n"
            f"{self._difference()}\n\n{error}"
        )

    def _difference(self) -> str:
        pairs = zip_longest(self.forward.calls, self.again.calls, fillvalue=("nothing", ""))
        for number, (first, second) in enumerate(pairs, 1):
            if first[0] != second[0]:
                return (
                    f"They differ first in the {number}. call: {_placed(*first)} in forward, "
                    f"{_placed(*second)} in backward."
                )
        return "Both ran the same operations on the same shapes."


def _placed(call: str, line: str) -> str:
    return f"{call} at {line}" if line else call


def _name(func: Any) -> str:
    op = getattr(func, "op", None)
    return str(op.name if op is not None else getattr(func, "__name__", type(func).__name__))


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_shown(item) for item in value)}]"
    return repr(value)


def _line() -> str:
    """The innermost line of the program."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
