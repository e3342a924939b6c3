"""The samples of held_samples.txt, which says what they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.runtime.core.ops.written import written
from tests.runtime.oracle import Fixed, Input, Real, Sample

LINES = Path(__file__).with_suffix(".txt")
INPUTS: dict[str, Input] = {
    "POSITIVE": Real((3, 4), 0.3, 3.0),
    "UNIT": Real((3, 4), 0.1, 0.9),
    "LARGE": Real((3,), 2.2, 5.0),
    "WHOLE": Fixed([[12, 18, 7], [0, -4, 30]]),
    "STEPS": Fixed([[1, 2, 3], [2, 0, 4]]),
    "ROWS": Fixed([[0, 2, 1, 0], [1, 1, 0, 2]]),
    "SORTED": Fixed([0.0, 0.5, 1.0, 1.5]),
    "REPEATED": Fixed([[3, 1, 1], [3, 1, 1], [2, 0, 0]]),
    "PLACES": Fixed([0, 5, 11]),
}


def cases() -> Iterator[tuple[str, Sample]]:
    """Each of them by a name of its own: `diff-0`."""
    seen: Counter[str] = Counter()
    for line in LINES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, inputs, text = (part.strip() for part in line.split("|"))
            operation = name.removesuffix("!")
            given = [INPUTS[each] if each in INPUTS else shape(each) for each in inputs.split()]
            yield (
                f"{operation}-{seen[operation]}",
                Sample(written(text), *given, grad=operation == name),
            )
            seen[operation] += 1


def shape(text: str) -> tuple[int, ...]:
    """`3x4`."""
    return tuple(int(size) for size in text.split("x"))
