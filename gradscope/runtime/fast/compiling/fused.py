"""Chains of arithmetic on arrays of one shape as one generated and compiled loop.

It accepts only operations that NumPy rounds as a single instruction does (sums, products,
quotients, signs, roots), and compiles without fast-math: a fused chain gives the same bits. The
text of a kernel is cached with its machine code, so that the next process compiles nothing. Without
a folder for the cache, every process compiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from gradscope.machine_code.cache_folder import cache_folder, own_bytes, write_own
from gradscope.runtime.core.kernels.compile_notices import own_work


@cache
def fused_kernel(
    lines: tuple[str, ...], given: int, made: tuple[str, ...], kind: str, dims: int
) -> Any:
    """A function of `given` arrays with `dims` dims, and then an output array for each of `made`.

    `lines` are assignments to names, over `x0`, `x1`, … for the elements of the given arrays; `f`
    converts numbers to the arrays' kind.
    """
    text = _text(lines, given, made, np.dtype(kind).name, dims)
    with own_work("compiles a fused chain"):
        return _kernel(text, _kept(text))


def kept_kernels() -> Iterator[Any]:
    """The cached kernels of earlier processes, each called once, so that it is compiled."""
    folder = _folder()
    for file in sorted(folder.glob("fused_*.py")) if folder is not None else []:
        text = _read(file)
        if _name(text) != file.stem:
            continue  # foreign, or truncated
        kernel = _kernel(text, file)
        kind, dims = text.splitlines()[0].split()[1:3]
        count = kernel.py_func.__code__.co_argcount
        kernel(*[np.ones((1,) * int(dims), kind) for _ in range(count)])
        yield kernel


def _kernel(text: str, file: Path | None) -> Any:
    """The compiled kernel of a text; with a file it is looked up in the cache."""
    from gradscope.runtime.fast.compiling.compiled import compiled_text

    name = _name(text)
    scope: dict[str, Any] = {"f": np.dtype(text.split()[1]).type, "__name__": __name__}
    source = "<gradscope: a fused chain>" if file is None else str(file)
    exec(compile(text.replace("def fused", f"def {name}"), source, "exec"), scope)  # noqa: S102
    return compiled_text(scope[name], keeps=file is not None)


def _name(text: str) -> str:
    return f"fused_{sha256(text.encode()).hexdigest()[:24]}"


def _folder() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "fused"


def _kept(text: str) -> Path | None:
    """The cache file of this text; None if it cannot be written."""
    folder = _folder()
    if folder is None:
        return None
    file = folder / f"{_name(text)}.py"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if _read(file) != text:
            write_own(file, text.encode())
        return file
    return None


def _read(file: Path) -> str:
    """The text of a file; "" if it is foreign."""
    with suppress(OSError, UnicodeDecodeError):
        return own_bytes(file).decode()
    return ""


def _text(lines: Sequence[str], given: int, made: Sequence[str], kind: str, dims: int) -> str:
    arrays = [f"a{nr}" for nr in range(given)] + [f"o{nr}" for nr in range(len(made))]
    head = [f"# {kind} {dims} -- elements, and dims of arrays", f"def fused({', '.join(arrays)}):"]
    head += [f"    {name} = {name}.reshape({name}.size)" for name in arrays]
    head += ["    for i in range(o0.size):"]
    body = [f"        x{nr} = a{nr}[i]" for nr in range(given)]
    body += [f"        {line}" for line in lines]
    body += [f"        o{nr}[i] = {name}" for nr, name in enumerate(made)]
    return "\n".join([*head, *body]) + "\n"
