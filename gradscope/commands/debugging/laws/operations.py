"""The operations and modules of one forward, with digests of their results."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from zlib import crc32

from gradscope.commands.debugging.laws.copied_modules import tensors
from gradscope.record.notes.sites import caller_of, is_ours
from gradscope.scene.timeline.laws.eval_answer import DiffersAt


class Operations:
    """Notes operations and modules of a forward, each when it has ended."""

    def __init__(self, torch: Any, root: Any) -> None:
        self.torch = torch
        self.happened: list[DiffersAt] = []
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._inside: list[Any] = []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Note the operations that are called in this context."""
        note, mode = self._note, self.torch.overrides.TorchFunctionMode

        class Noting(mode):  # type: ignore[misc, valid-type]
            """Sees each call of a function of PyTorch."""

            def __torch_function__(
                self, function: Any, _: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = function(*args, **(kwargs or {}))
                note(getattr(function, "__name__", str(function)), result)
                return result

        with Noting():
            yield

    def module(self, module: Any, call: Any, given: Any, named: Any) -> Any:
        """Call a module, and note what it returns."""
        self._inside.append(module)
        try:
            result = call(module, *given, **named)
            self._note("", result)
        finally:
            self._inside.pop()
        return result

    def _note(self, name: str, result: Any) -> None:
        module = self._inside[-1]
        path, kind = self._paths.get(id(module), ""), type(module).__name__
        with self.torch._C.DisableTorchFunction():  # noqa: SLF001  has no public name
            digests = [self._digest(each) for each in tensors(result, self.torch)]
        self.happened.append(DiffersAt(
            name, f"{path} ({kind})" if path else kind, module.training,
            line_of_the_program(self.torch), tuple(digests),
        ))  # fmt: skip

    def _digest(self, value: Any) -> str:
        if not isinstance(value, self.torch.Tensor):
            return repr(value)
        if value.layout != self.torch.strided:
            value = value.to_dense()
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest = crc32(flat.view(self.torch.uint8).numpy().tobytes()) if flat.numel() else 0
        return f"{list(value.shape)} {value.dtype} {digest:08x}"


def line_of_the_program(torch: Any) -> str:
    """The innermost line that is neither PyTorch's nor ours, as in "train.py:7: loss = …"."""
    folder = str(Path(torch.__file__).parent)
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_ours(frame.f_code) or file.startswith((folder, "<"))):
            text = linecache.getline(file, frame.f_lineno).strip()
            return f"{_short(file)}:{frame.f_lineno}: {text}"
        frame = caller_of(frame)
    return ""


def _short(file: str) -> str:
    """A path relative to the working directory, or from the folder of packages on."""
    here = str(Path.cwd())
    return file.removeprefix(f"{here}/").rpartition("site-packages/")[2]
