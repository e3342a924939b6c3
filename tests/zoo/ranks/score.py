"""How many of the bugs across ranks `inspect` names, and what it says against the twins.

python -m tests.zoo.ranks.score [--family NAME] [--case NAME] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gradscope.analysis.findings import Finding, Severity
from tests.zoo.case import Case, case_of
from tests.zoo.ranks.running import LEVEL, Ranks, recorded
from tests.zoo.score import in_words, lines_of

CASES = Path(__file__).with_name("cases")
NOT_NAMED = Path(__file__).with_name("not_named.txt")
"""The cases that are not named, each with the reason."""


class Named(StrEnum):
    """How well a finding answers: the line that a person would change, and how far up it stands."""

    FIRST = "first"  # the first finding above a note is at the line
    LATER = "later"  # another one is
    NOTE = "note"  # only a note is
    NOTHING = "missed"


@dataclass(frozen=True)
class Verdict:
    """What was said of a case and of its twin."""

    case: Case
    named: Named
    buggy: Ranks
    fixed: Ranks

    @property
    def false_alarms(self) -> list[str]:
        return [in_words(each) for each in serious(self.fixed)]

    @property
    def lame_twin(self) -> bool:
        """Whether the twin did not end as a healthy program does."""
        return any(self.fixed.codes)


def serious(ranks: Ranks) -> list[Finding]:
    return [each for each in ranks.findings if each.severity > Severity.NOTE]


def cases(family: str = "*") -> list[Case]:
    return [case_of(path) for path in sorted(CASES.glob(f"{family}/*.py"))]


def verdict(case: Case, folder: Path, level: str = LEVEL) -> Verdict:
    """Record both scripts of a case, and compare what is said with the answer."""
    own = folder / case.name
    buggy = recorded(own / "buggy", case.name, case.buggy, level)
    fixed = recorded(own / "fixed", case.name, case.fixed, level)
    return Verdict(case, named(case, buggy), buggy, fixed)


def named(case: Case, said: Ranks) -> Named:
    def answers(findings: Iterable[Finding]) -> list[bool]:
        return [bool(lines_of(each, f"{case.name}.py") & case.lines) for each in findings]

    loud = answers(serious(said))
    if any(loud):
        return Named.FIRST if loud[0] else Named.LATER
    return Named.NOTE if any(answers(said.findings)) else Named.NOTHING


def not_named() -> set[str]:
    lines = NOT_NAMED.read_text(encoding="utf-8").splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def table(verdicts: Sequence[Verdict]) -> Iterable[str]:
    width = max(len(each.case.family) for each in verdicts)
    yield f"{'':{width}}  cases  {'  '.join(Named)}  twins with findings"
    for family in [*sorted({each.case.family for each in verdicts}), ""]:
        own = [each for each in verdicts if family in ("", each.case.family)]
        count = Counter(each.named for each in own)
        columns = "  ".join(f"{count[each]:{len(each)}}" for each in Named)
        alarms = sum(bool(each.false_alarms) for each in own)
        yield f"{family or 'all':{width}}  {len(own):5}  {columns}  {alarms:5}"


def details(each: Verdict, *, everything: bool) -> Iterable[str]:
    """What was said of a case: what names it, all that does not, and what is said of the twin."""
    case, script = each.case, f"{each.case.name}.py"
    lines = ", ".join(map(str, sorted(case.lines)))
    yield f"{case.family}/{case.name}: {each.named}: {case.kind} at {lines}"
    for finding in serious(each.buggy):
        answers = bool(lines_of(finding, script) & case.lines)
        yield f"    {'*' if answers else ' '} {in_words(finding)}"
    yield from (f"    FALSE ALARM: {said}" for said in each.false_alarms)
    if each.lame_twin:
        yield f"    THE TWIN ENDED WITH {each.fixed.codes}: {each.fixed.err[-500:]}"
    if everything:
        for which, ranks in (("buggy", each.buggy), ("twin", each.fixed)):
            yield f"    {which} ended with {ranks.codes}, left {ranks.traces} traces, and wrote"
            yield from (f"        {line}" for line in ranks.out.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.zoo.ranks.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--family", metavar="NAME", default="*", help="only this folder of cases")
    parser.add_argument("--case", metavar="NAME", help="only this one, with all that is said of it")
    parser.add_argument("--level", default=LEVEL)
    parser.add_argument("--output", action="store_true", help="show what the scripts write, too")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the traces, or use them")
    asked = parser.parse_args()
    began = time.monotonic()
    chosen = [each for each in cases(asked.family) if asked.case in (None, each.name)]
    if not chosen:
        parser.error("no such case")
    verdicts = []
    with tempfile.TemporaryDirectory() as passing:
        folder = (asked.keep or Path(passing)).absolute() / asked.level
        for case in chosen:
            verdicts.append(verdict(case, folder, asked.level))
            for line in details(verdicts[-1], everything=asked.output or asked.case is not None):
                print(line, flush=True)
    print(*table(verdicts), sep="\n")
    print(f"{time.monotonic() - began:.0f} s at level {asked.level}")


if __name__ == "__main__":
    main()
