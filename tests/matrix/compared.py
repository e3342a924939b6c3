"""What the traces of a cell say, compared with those of another cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gradscope.analysis.likeness import likeness, not_seen
from gradscope.trace.load_save import load
from gradscope.trace.trace import Trace

LONGEST = 160
WORDS = re.compile(r"(failed: \w+:|error .* message) .*")
"""The words of an error, which differ between versions of PyTorch."""

SHAPES = re.compile(r" takes .*")


@dataclass(frozen=True)
class Compared:
    """How many programs two cells recorded alike, and the first difference of each other one."""

    alike: int
    differ: dict[str, str]
    lacks: dict[str, str]  # programs that could not run, and why


def compare(folder: Path, reference: Path) -> Compared:
    """Compare the traces in two folders."""
    raised = {**outcomes(reference)["raised"], **outcomes(folder)["raised"]}
    differ, alike = {}, 0
    for file in sorted(folder.glob("*.json")):
        if file.stem == "outcomes" or file.stem in raised:
            continue
        found = difference(load(file), load(reference / file.name))
        if found:
            differ[file.stem] = found
        else:
            alike += 1
    return Compared(alike, differ, raised)


def outcomes(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "outcomes.json").read_text("utf-8"))
    return found


def difference(trace: Trace, reference: Trace) -> str:
    """The first line that differs, and that of the reference; "": all are the same."""
    for one, other in zip_longest(lines(trace, reference), lines(reference, trace), fillvalue=""):
        if one != other:
            return f"{one.strip()[:LONGEST]!r}, not {other.strip()[:LONGEST]!r}"
    return ""


def lines(trace: Trace, other: Trace) -> Iterator[str]:
    """What a trace says, without what the other cannot say."""
    hidden = " ".join([*trace.meta.get("not_shown", ()), *other.meta.get("not_shown", ())])
    for line in likeness(trace, absent=not_seen(trace, other)):
        if "saved values" in hidden and line.lstrip().startswith(("keeps ", "saved_released ")):
            continue
        told = WORDS.sub(r"\1", line)
        yield SHAPES.sub("", told) if "shapes" in hidden else told


def new_findings(folder: Path, reference: Path) -> dict[str, list[str]]:
    """Rules that found something in more programs than in the reference, with these programs."""
    found: dict[str, list[str]] = {}
    before = outcomes(reference)["findings"]
    for name, rules in outcomes(folder)["findings"].items():
        for rule in set(rules) - set(before.get(name, ())):
            found.setdefault(rule, []).append(name)
    return found
