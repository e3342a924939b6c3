"""Counts what rules that read a program's text would say of other people's files.

python -m tests.zoo.readings FILE|FOLDER...

Files are read and not run: each is searched as if all of its lines had run. Only searches are
counted whose result is a finding of its own, not those that add a line or a name to what a run
showed. Each line found is printed, to be checked by a person.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gradscope.analysis.ranks.training.exchanged.lone import lone
from gradscope.analysis.rules.loop.weights.copies import is_swapped
from gradscope.analysis.source.averages import averages
from gradscope.analysis.source.files import OnALine
from gradscope.analysis.source.functions import parsed
from gradscope.analysis.source.misspelt import misspelt
from gradscope.analysis.source.reorders import reorders
from gradscope.analysis.source.statements import idle_statements, own_methods

IMPORTS = re.compile(r"^\s*(import|from) torch\b", re.MULTILINE)
TRAINS = re.compile(r"nn\.Module|\.backward\(|optim\b")
"""In files that define or train models."""


def no_effect(tree: ast.Module) -> Iterator[OnALine]:
    own = {each.name for each in own_methods(tree)}
    yield from (e for e in idle_statements(tree) if e.what != "dropped" or e.name not in own)
    yield from (each for _, each in misspelt([tree]))


READINGS: dict[str, Callable[[ast.Module], Iterable[OnALine]]] = {
    "no-effect": no_effect,
    "mixed-up-elements": reorders,
    "averaged-the-wrong-way": lambda tree: filter(is_swapped, averages(tree)),
    "transfer-not-waited": lone,
}


def texts(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Each file that uses PyTorch to define or train models; copies of a file once."""
    seen = set[str]()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
            text = file.read_text(encoding="utf-8", errors="replace")
            if text not in seen and IMPORTS.search(text) and TRAINS.search(text):
                seen.add(text)
                yield file, text


def found(text: str) -> Iterator[tuple[str, int]]:
    """The rule and line of each finding in a file."""
    tree = parsed(text)
    if tree is None:
        return
    for rule, find in READINGS.items():
        yield from ((rule, each.line) for each in find(tree))


def main(paths: Iterable[Path]) -> None:
    files, rules = 0, Counter[str]()
    for files, (path, text) in enumerate(texts(paths), 1):
        lines = list(found(text))
        rules.update({rule for rule, _ in lines})
        for rule, line in lines:
            print(f"{path}:{line}: {rule}: {text.splitlines()[line - 1].strip()}")
    for rule in READINGS:
        print(f"{rule}: in {rules[rule]} of {files} files")


if __name__ == "__main__":
    main(map(Path, sys.argv[1:]))
