"""Functions that accept `axis=` for `dim=`, and `keepdims=` for `keepdim=`, as in NumPy."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from gradscope.runtime.core.errors.arguments.raise_wrong_call import OR_BLAME
from gradscope.runtime.core.errors.arguments.wrappers import around
from gradscope.runtime.core.rows.parameters import BY_NAME, REQUIRED, FunctionParameter, parameters


class _Missing:
    """Marks a `dim` without default that was given under neither name."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()

OTHERWISE = {"axis": "dim", "keepdims": "keepdim"}


def taking_axis(name: str, inner: FunctionType) -> FunctionType:
    """A function around one with a `dim`, with its parameters and NumPy's names for two of them."""
    given = [p._replace(default=MISSING) if _must_be_given(p) else p for p in parameters(inner)]
    names = {p.name for p in given}
    extra = [
        FunctionParameter(new, BY_NAME, None) for new, old in OTHERWISE.items() if old in names
    ]
    lines = "".join(
        f"    if {new} is not None:\n        {OTHERWISE[new]} = {new}\n" for new, *_ in extra
    )
    lines += (
        "    if dim is MISSING:\n"
        "        raise TypeError(name + '() missing 1 required positional arguments: \"dim\"')\n"
        f"    try:\n        return {{call}}\n{OR_BLAME}"
    )
    made = around(inner, lines, [*given, *extra], "with axis= for dim=", name=name, MISSING=MISSING)
    made.__name__ = made.__qualname__ = name
    return made


def _must_be_given(p: FunctionParameter) -> bool:
    return p.name == "dim" and p.default is REQUIRED
