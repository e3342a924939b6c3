"""Formats numbers and shapes for people, in the same way in every view."""

from __future__ import annotations

from gradscope.trace.schema import NONE, Accumulation

ACCUMULATED = {
    Accumulation.STOLEN: "moved",
    Accumulation.CLONED: "copied",
    Accumulation.IN_PLACE: "added in place",
    Accumulation.OUT_OF_PLACE: "added to a new tensor",
}
"""How a gradient was accumulated in `.grad`."""
TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
BYTE_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def duration(ns: int) -> str:
    """As in "1.24 ms"; "?" for an unknown time."""
    if ns == NONE:
        return "?"
    for size, unit in TIME_UNITS:
        if abs(ns) >= size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{ns} ns"


def byte_count(count: int) -> str:
    """As in "3.5 MiB"."""
    for size, unit in BYTE_UNITS:
        if count >= size:
            return f"{_three_digits(count / size)} {unit}"
    return plural(count, "byte")


def count(number: int) -> str:
    """As in "12,345"."""
    return f"{number:,}"


def plural(number: int, noun: str, more: str = "") -> str:
    """As in "1 node" and "3,615 nodes"."""
    return f"{number:,} {noun if number == 1 else more or noun + 's'}"


def ordinal(number: int) -> str:
    """As in "1st", "22nd", "113th"."""
    teen = number % 100 in {11, 12, 13}
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def shape(sizes: tuple[int, ...]) -> str:
    """As in "[2, 3]"; a scalar is "scalar", and "?" a size that is not a number."""
    shown = ["?" if size < 0 else str(size) for size in sizes]
    return f"[{', '.join(shown)}]" if sizes else "scalar"


def number(value: float) -> str:
    """As in "0.00123" and "4.5e-09"."""
    return f"{value:.3g}"


def shorten(text: str, length: int) -> str:
    """The text, cut at the end with an ellipsis if it is longer."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
