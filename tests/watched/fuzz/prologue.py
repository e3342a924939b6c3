"""What every program of the fuzzer begins with: it says bit for bit what values are."""

from __future__ import annotations

# ruff: noqa: F401
import hashlib
import os
import re
import signal
import sys
import threading
import time
import warnings

import torch

torch.set_num_threads(1)
torch.manual_seed(0)


def words(thing):
    """A text without addresses."""
    try:
        text = str(thing)
    except BaseException as error:
        text = f"no text: {type(error).__name__}"
    return re.sub(r"0x[0-9a-f]+|\b\d{12,}\b", "~", text)[:400]


def bits(value):
    """What a value is, bit for bit."""
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(bits, value)) + ")"
    if not isinstance(value, torch.Tensor):
        return words(value) if value is None or isinstance(value, (int, float, str)) else "object"
    kind = f"{type(value).__name__} {words(value.dtype)} {words(value.layout)}"
    try:
        return f"{kind} {tuple(value.shape)} {digest(value)}"
    except Exception as error:
        return f"{kind} {type(error).__name__}"


def digest(value):
    with torch.no_grad():
        plain = value.detach()
        if torch._is_functional_tensor(plain):
            return "elsewhere"
        if plain.layout == torch.strided and plain.untyped_storage().nbytes() < plain.nbytes:
            return "without memory"
        plain = plain.int_repr() if plain.is_quantized else plain
        plain = plain if plain.layout == torch.strided else plain.to_dense()
        plain = plain.resolve_conj().resolve_neg().contiguous().reshape(-1)
        return hashlib.sha1(plain.view(torch.uint8).numpy().tobytes()).hexdigest()[:12]


def show(*things):
    print(*(thing if isinstance(thing, str) else bits(thing) for thing in things), flush=True)


def show_all(tensors):
    """Each of these, its gradient, and how it says it came about."""
    for name, tensor in tensors.items():
        show(name, tensor, "grad", getattr(tensor, "grad", None) if is_leaf(tensor) else "none")


def is_leaf(tensor):
    try:
        return tensor.is_leaf
    except Exception:
        return False


def raised(block, error):
    """What came out of a block: the exceptions, and the lines of this file that they passed."""
    while error is not None:
        lines, at = [], error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == __file__:
                lines.append(at.tb_lineno)
            at = at.tb_next
        if isinstance(error, RecursionError):  # its place and words depend on who calls us
            print(block, "goes too deep", flush=True)
            return
        print(block, "raised", type(error).__name__, words(error), lines, flush=True)
        error = error.__cause__ or error.__context__


def attempt(block):
    """Do it now, and say what it raises."""
    try:
        block()
    except BaseException as error:
        raised(block.__name__, error)
    return block


warnings.simplefilter("always")
