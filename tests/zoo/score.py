"""How many of the zoo's bugs `inspect` names, and what it says against the twins.

python -m tests.zoo.score [--on torch|gradscope] [--case NAME] [--level values]
python -m tests.zoo.score --healthy FOLDER    counts what is said against sound scripts
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gradscope.analysis.findings import Finding
from tests.zoo.case import FOLDERS, Case, case_of, cases
from tests.zoo.kinds import KINDS
from tests.zoo.running import Told, lines_named, told

LEVEL = "values"
ENGINES = ("torch", "gradscope")
WITH_A_BUG = frozenset({"nan_in_backward"})
"""Samples that are there to show one."""
NOT_YET = Path(__file__).with_name("not_named_yet.txt")
"""The cases of which an engine's traces do not let both be named: this may only become shorter."""


class Named(StrEnum):
    """How much of the answer was given."""

    BOTH = "named"
    LINE = "line only"
    KIND = "kind only"
    NOTHING = "missed"


@dataclass(frozen=True)
class Verdict:
    """What was said of a case and of its twin."""

    case: Case
    named: Named
    buggy: Told
    fixed: Told

    @property
    def is_first(self) -> bool:
        """Whether the finding that names both is the first one, or the exception's text does."""
        answers = [*answers_of(self.case, self.buggy)]
        first, raised = answers[:1], answers[len(self.buggy.serious) :]
        return WANTED in (*first, *raised)

    @property
    def said(self) -> list[str]:
        """What a person read of the buggy script."""
        raised = self.buggy.raised.splitlines()[:1]
        return [*map(in_words, self.buggy.serious), *(f"raised: {line}" for line in raised)]

    @property
    def false_alarms(self) -> list[str]:
        raised = self.fixed.raised.splitlines()[:1]
        return [*map(in_words, self.fixed.serious), *(f"raised: {line}" for line in raised)]


def in_words(finding: Finding) -> str:
    return f"{finding.slug} at {finding.site.place or 'no line'}: {finding.message}"


def verdict(case: Case, folder: Path, *, on: str, level: str = LEVEL) -> Verdict:
    """Record both scripts of a case, and compare what is said with the answer."""
    buggy = told(folder / "buggy", case.name, case.buggy, on=on, level=level)
    fixed = told(folder / "fixed", case.name, case.fixed, on=on, level=level)
    return Verdict(case, named(case, buggy), buggy, fixed)


def named(case: Case, said: Told) -> Named:
    """Whether one thing that was said has both the line and the kind; else the better half."""
    answers = [*answers_of(case, said)]
    for named, wanted in ((Named.BOTH, WANTED), (Named.LINE, (True, False))):
        if wanted in answers:
            return named
    return Named.KIND if (False, True) in answers else Named.NOTHING


WANTED = True, True


def answers_of(case: Case, said: Told) -> Iterable[tuple[bool, bool]]:
    """Of each finding, and of the exception at the end: whether it names the line, the kind."""
    kind, script = KINDS[case.kind], f"{case.name}.py"
    for each in said.serious:
        yield bool(lines_of(each, script) & case.lines), each.slug in kind.slugs
    if said.raised:
        spoken = any(words in said.raised for words in kind.words)
        yield bool(said.raised_lines & case.lines), spoken


def lines_of(finding: Finding, script: str) -> frozenset[int]:
    """The script's lines that the first sentence of a finding names."""
    said = finding.site.place, finding.message, finding.why
    return frozenset().union(*(lines_named(each, script) for each in said))


# What is printed -----------------------------------------------------------------------------


def table(verdicts: Sequence[Verdict]) -> Iterable[str]:
    width = max(len(each.case.family) for each in verdicts)
    yield f"{'':{width}}  cases  {'  '.join(Named)}  named first  twins with findings"
    for family in [*sorted({each.case.family for each in verdicts}), ""]:
        own = [each for each in verdicts if family in ("", each.case.family)]
        count = Counter(each.named for each in own)
        columns = "  ".join(f"{count[each]:{len(each)}}" for each in Named)
        alarms = sum(bool(each.false_alarms) for each in own)
        first = sum(each.is_first for each in own)
        yield f"{family or 'all':{width}}  {len(own):5}  {columns}  {first:11}  {alarms:5}"


def details(verdicts: Sequence[Verdict], *, everything: bool) -> Iterable[str]:
    for each in verdicts:
        if each.named is not Named.BOTH or not each.is_first or everything:
            case = each.case
            lines = ", ".join(map(str, sorted(case.lines)))
            later = ", but not first" * (each.named is Named.BOTH and not each.is_first)
            yield f"{case.family}/{case.name}: {each.named}{later}: {case.kind} at {lines}"
            yield from (f"    {said}" for said in each.said)
        yield from (f"  FALSE ALARM on {each.case.name}: {said}" for said in each.false_alarms)


def not_named(verdicts: Sequence[Verdict], engine: str) -> None:
    """Take out of the kept list what is named now, and add what is new and is not."""
    kept = {name: set(engines) for name, *engines in map(str.split, _lines(NOT_YET))}
    for each in verdicts:
        engines = kept.setdefault(each.case.name, set())
        (engines.discard if each.named is Named.BOTH else engines.add)(engine)
    there = {each.name for each in cases()}
    lines = [" ".join([name, *sorted(of)]) for name, of in sorted(kept.items()) if of]
    text = "".join(f"{line}\n" for line in lines if line.split()[0] in there)
    NOT_YET.write_text(text, encoding="utf-8")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def healthy(folders: Iterable[Path], into: Path, *, on: str, level: str) -> Iterable[str]:
    """What is said against the scripts of folders, all of them sound."""
    every = (each for folder in folders for each in scripts_of(folder))
    programs = [(name, text) for name, text in every if name not in WITH_A_BUG]
    alarms = 0
    for number, (name, text) in enumerate(programs):
        said = told(into / f"{number}", name, text, on=on, level=level)
        alarms += bool(said.serious)
        yield from (f"FALSE ALARM on {name}: {in_words(each)}" for each in said.serious)
        if said.code:
            yield f"{name} ended with {said.code}: {said.raised}"
    yield f"{len(programs)} sound programs, {alarms} of them with findings above a note, on {on}"


def scripts_of(folder: Path) -> Iterable[tuple[str, str]]:
    """The scripts of a folder; of a file of functions that take `torch`, one for each function."""
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        text = path.read_text(encoding="utf-8")
        functions = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
        names = [each.name for each in functions if [a.arg for a in each.args.args] == ["torch"]]
        if any(path.is_relative_to(folder) for folder in FOLDERS):
            case = case_of(path)
            yield case.name, case.fixed
        elif "import torch" in text.splitlines():
            yield path.stem, text
        for name in names:
            yield name, f"{text}\n\nimport torch\n\n{name}(torch)\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.zoo.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--on", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--case", metavar="NAME", help="only this one, with all that is said of it")
    parser.add_argument("--family", metavar="NAME", default="*", help="only this folder of cases")
    parser.add_argument("--level", default=LEVEL)
    parser.add_argument("--healthy", metavar="FOLDER", type=Path, nargs="+")
    parser.add_argument("--note", action="store_true", help="keep which are not named (a review!)")
    parser.add_argument(
        "--keep",
        metavar="FOLDER",
        type=Path,
        help="keep the traces there; look over those that are there already",
    )
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as passing:
        kept = asked.keep and asked.keep / f"{asked.on}-{asked.level}"
        folder = (kept or Path(passing)).absolute()
        if asked.healthy:
            for line in healthy(asked.healthy, folder, on=asked.on, level=asked.level):
                print(line)
            return
        chosen = [each for each in cases(asked.family) if asked.case in (None, each.name)]
        if not chosen:
            sys.exit("no such case")
        verdicts = [verdict(each, folder, on=asked.on, level=asked.level) for each in chosen]
    if asked.note:
        not_named(verdicts, asked.on)
    for line in (*details(verdicts, everything=asked.case is not None), *table(verdicts)):
        print(line)
    print(f"{time.monotonic() - began:.1f} s on {asked.on} at level {asked.level}")


if __name__ == "__main__":
    main()
