"""The language of breakpoints. Nothing of it is run as code.

    KIND [WHAT] [if FIELD < VALUE [and …]] [nth N]

`node Mul* if waited > 1ms nth 3` is the third time that a node whose name starts with Mul starts
after waiting in its queue for over a millisecond. `train.py:41` is `line train.py:41`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from gradscope.errors import UnknownNameError, UsageError

COMPARISONS = ("<=", ">=", "==", "!=", "<", ">")
UNITS = {
    "ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9,
    "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9,
}  # fmt: skip
_CONDITION = re.compile(r"\s*([a-z_]+)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*$")
_VALUE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([a-zµA-Z]*)$")
_LINE = re.compile(r"\S+\.\w+:\d+$|<.*>:\d+$")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: `waited > 1ms`."""

    field: str
    comparison: str
    value: float


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """One breakpoint."""

    text: str  # as it was written
    kind: str
    wanted: str = ""  # a name, pattern or line; "": any
    conditions: tuple[Condition, ...] = ()
    nth: int = 0  # only this match, counted from 1; 0: each


def read(text: str) -> Breakpoint:
    """Parse a breakpoint; raises an error that explains what is wrong."""
    rest, nth = _split(text.strip(), "nth")
    rest, conditions = _split(rest, "if")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"cannot read {text!r}: {error}") from None
    if not words:
        raise UsageError("a breakpoint starts with its kind, as in: node MulBackward0")
    kind, wanted = words[0], " ".join(words[1:])
    if _LINE.match(kind) and not wanted:
        kind, wanted = "line", kind
    found = [_condition(each, text) for each in re.split(r"\band\b", conditions)] if conditions \
        else []  # fmt: skip
    return Breakpoint(text.strip(), kind, wanted, tuple(found), _number(nth, text))


def is_line(text: str) -> bool:
    """Whether the text is a line of a file: train.py:41."""
    return _LINE.match(text) is not None


def _split(text: str, word: str) -> tuple[str, str]:
    """The text before and after this word."""
    before, found, behind = f" {text} ".partition(f" {word} ")
    if found and not behind.strip():
        raise UsageError(f"nothing follows {word!r} in {text!r}")
    return before.strip(), behind.strip()


def _number(text: str, whole: str) -> int:
    if not text:
        return 0
    if not text.isdecimal() or not 0 < int(text) < 1 << 62:
        raise UsageError(f"{text!r} in {whole!r} is not a number: nth 1 is the first match")
    return int(text)


def _condition(text: str, whole: str) -> Condition:
    found = _CONDITION.match(text)
    if found is None:
        raise UsageError(
            f"cannot read the condition {text.strip()!r} in {whole!r}: write FIELD < VALUE, as in "
            "waited > 1ms"
        )
    field, comparison, value = found.groups()
    return Condition(field, comparison, quantity(value))


def quantity(text: str) -> float:
    """A number, with a unit of time (in nanoseconds) or size (in bytes) or without."""
    found = _VALUE.match(text)
    if text in ("nan", "inf", "-inf"):
        return float(text)
    if found is None:
        raise UsageError(f"{text!r} is not a number")
    number, unit = found.groups()
    if unit and unit not in UNITS:
        raise UnknownNameError(f"{text!r} has an unknown unit: use {', '.join(UNITS)}")
    return float(number) * UNITS.get(unit, 1)
