"""Threads as the system knows them: those that other libraries start have no name in Python."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

_LONGEST = 64


def system_name(ident: int) -> str:
    """A living thread's name, from its `threading.get_ident()`; "": not known."""
    ask = _ask_for_names()
    buffer = ctypes.create_string_buffer(_LONGEST)
    if ask is None or ask(ctypes.c_void_p(ident), buffer, ctypes.c_size_t(_LONGEST)) != 0:
        return ""
    return buffer.value.decode(errors="replace")


@cache
def _ask_for_names() -> Any:
    if sys.platform == "win32":
        return None
    return getattr(ctypes.CDLL(None), "pthread_getname_np", None)


def native_id(name: str) -> int:
    """The id of the only thread with this name; 0: not known."""
    found = []
    for path in Path("/proc/self/task").glob("*/comm"):
        try:
            if path.read_text(errors="replace").strip() == name:
                found.append(int(path.parent.name))
        except OSError:  # it has ended
            continue
    return found[0] if len(found) == 1 else 0
