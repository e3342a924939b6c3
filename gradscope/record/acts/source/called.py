"""What a program called at an instruction of its own, as its source has it: `from_numpy`."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from itertools import islice
from types import CodeType


@lru_cache(maxsize=4096)
def called_at(code: CodeType, offset: int) -> str:
    """The last name of what is called there; "": it is no call, or there is no source."""
    place = next(islice(code.co_positions(), max(offset, 0) // 2, None), None)
    if place is None or None in place:
        return ""
    first, last, start, end = (number or 0 for number in place)
    lines = [linecache.getline(code.co_filename, nr).encode() for nr in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        found = ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    function = found.func if isinstance(found, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
