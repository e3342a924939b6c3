"""A file of the zoo, made into the buggy script, its twin, and what the answer is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = (HERE / "cases", HERE / "longer")
"""Families of short scripts; of longer ones, as they stand in repositories."""
MARK = re.compile(r"\s+# (?:BUG (?P<kind>[a-z0-9-]+)|ALSO)$")
INSTEAD = re.compile(r"^(?P<indent> *)# (?P<how>FIX|ADD)(?: (?P<code>.*))?$")


@dataclass(frozen=True)
class Case:
    """A script with a bug, the same without it, and where it is."""

    name: str
    family: str
    kind: str
    lines: frozenset[int]  # those that count as the answer
    buggy: str
    fixed: str


def case_of(path: Path) -> Case:
    """What a file of the zoo holds."""
    buggy: list[str] = []
    fixed: list[str] = []
    kinds, lines = [], set()
    replaced = False  # the line above, by an earlier FIX
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if instead := INSTEAD.match(line):
            if instead["how"] == "FIX" and not replaced:
                fixed.pop()
                replaced = True
            if instead["code"]:
                fixed.append(instead["indent"] + instead["code"])
            buggy.append("")
            continue
        if mark := MARK.search(line):
            line = line[: mark.start()]
            lines.add(number)
            kinds += [mark["kind"]] if mark["kind"] else []
        replaced = False
        buggy.append(line)
        fixed.append(line)
    (kind,) = kinds
    return Case(path.stem, path.parent.name, kind, frozenset(lines), _text(buggy), _text(fixed))


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def families() -> list[str]:
    return sorted(path.name for folder in FOLDERS for path in folder.glob("[a-z]*/"))


def cases(family: str = "*") -> list[Case]:
    """All cases, or those of a family."""
    paths = (path for folder in FOLDERS for path in folder.glob(f"{family}/*.py"))
    return [case_of(path) for path in sorted(paths)]
