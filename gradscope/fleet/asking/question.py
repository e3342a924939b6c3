"""A question to a fleet: one TOML file with its words, its SQL and its plot.

    title = "Ranks that …"            # one line, for the list
    reads = ["step"]                  # tables of the fleet that the SQL may name
    words = "…"                       # how to read the answer, and what is inferred
    empty = "no rank …"               # said if the answer has no rows
    next = "gradscope timeline --step {step} {trace}"  # of the first row

    [parameters]                      # `$many` in the SQL; `--set many=5` changes it
    many = 20

    [[needs]]                         # a column without values: "not recorded"
    what = "values of tensors"
    columns = ["value.bad"]           # one of these must have values
    record = "record with --level values"

    [[stage]]
    split = "rank"                    # parts are some ranks, or "step": all ranks, some steps
    part = "SELECT …"                 # runs once for each part
    sum = "SELECT … FROM parts"       # `parts`: the rows of all parts, one below the other
    reads = ["step"]                  # if this part reads fewer tables
    only_found = true                 # reads only files of the runs (and ranks) in `found`
    only_where = "step IS NULL"       # and of them those in rows of which this holds
    listed = true                     # the part asks for the first NaN or Inf of each rank, which
                                      # an export lists: no file is read where that suffices

    [plot]                            # the page: a cell for each rank and step
    part = "SELECT run, rank, step, … AS value"
    reads = ["step"]
    title = "…"
    unit = "ns"                       # or "bytes"

A later stage sees the sum of the stage before it as the table `found`; the last sum is the answer.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from gradscope.errors import UnknownNameError, UsageError

FOLDER = Path(__file__).parents[1] / "questions"
BY_RANK, BY_STEP = "rank", "step"

Parameter = int | float | str


@dataclass(frozen=True, slots=True)
class QuestionStage:
    """SQL for each part, and SQL for the rows of all parts."""

    part: str
    sum: str
    split: str = BY_RANK  # how the fleet is divided: BY_RANK or BY_STEP
    reads: tuple[str, ...] = ()  # tables of the part; (): those of the question
    parts: int = 1  # at least so many in this process: SQL that sorts rows needs less memory then
    only_found: bool = False  # reads the runs in `found` only; the ranks, if it has this column
    only_where: str = "true"  # SQL: of rows of `found` in which this holds
    listed: bool = False  # its rows are the first steps with NaN or Inf, which exports list


@dataclass(frozen=True, slots=True)
class Need:
    """Columns without which there is no answer."""

    what: str  # "values of tensors"
    columns: tuple[str, ...]  # "value.bad": one of these must have values
    record: str  # how to record it
    where: str = ""  # SQL: in rows of which this holds


@dataclass(frozen=True, slots=True)
class Plot:
    """A number for each rank and step, for the page."""

    part: str  # gives run, rank, step, value
    title: str
    reads: tuple[str, ...]
    unit: str = ""  # "ns", "bytes" or ""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a fleet, and how its answer is read."""

    name: str
    title: str
    reads: tuple[str, ...]
    words: str
    empty: str
    stages: tuple[QuestionStage, ...]
    needs: tuple[Need, ...] = ()
    plot: Plot | None = None
    next: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    compares_ranks: bool = False

    def with_parameters(self, given: Mapping[str, str]) -> dict[str, Parameter]:
        """The values of the parameters, as given by `--set` or as the question has them."""
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise UsageError(f"{self.name} has no parameter {unknown[0]!r}; it has: {known}")
        return dict(self.parameters) | {
            name: _as_kind_of(self.parameters[name], name, text) for name, text in given.items()
        }


def _as_kind_of(default: Parameter, name: str, text: str) -> Parameter:
    try:
        return type(default)(text)
    except ValueError:
        kind = {int: "a whole number", float: "a number"}[type(default)]
        raise UsageError(f"--set {name} takes {kind}, not {text!r}") from None


@cache
def questions() -> dict[str, Question]:
    """The questions that gradscope brings, by their names."""
    return {path.stem: read_question(path) for path in sorted(FOLDER.glob("*.toml"))}


def question_called(name: str) -> Question:
    """The question of this name, or in this file."""
    path = Path(name)
    if path.suffix == ".toml":
        return read_question(path)
    known = questions()
    if name not in known:
        near = get_close_matches(name, known, 1, 0.4)
        meant = f"did you mean {near[0]}?" if near else "`gradscope ask FLEET` lists them"
        raise UnknownNameError(f"there is no question {name!r}; {meant}")
    return known[name]


def read_question(path: Path) -> Question:
    """The question in a file. Raises UsageError if the file is not one."""
    try:
        facts = tomllib.loads(path.read_text(encoding="utf-8"))
        return _question(path.stem, facts)
    except OSError as error:
        raise UsageError(f"cannot read the question {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    except KeyError as error:
        raise UsageError(f"{path} is no question: it lacks {error.args[0]!r}") from None
    except TypeError as error:
        raise UsageError(f"{path} is no question: {error}") from None


def _question(name: str, facts: dict[str, Any]) -> Question:
    stages = tuple(QuestionStage(**_with_tuples(stage)) for stage in facts["stage"])
    for stage in stages:
        if stage.split not in {BY_RANK, BY_STEP}:
            raise TypeError(f"split is {stage.split!r}; it must be {BY_RANK} or {BY_STEP}")
    return Question(
        name=name,
        title=facts["title"],
        reads=tuple(facts["reads"]),
        words=facts.get("words", "").strip(),
        empty=facts.get("empty", "nothing was found").strip(),
        stages=stages,
        needs=tuple(Need(**_with_tuples(need)) for need in facts.get("needs", ())),
        plot=Plot(**_with_tuples(facts["plot"])) if "plot" in facts else None,
        next=facts.get("next", ""),
        parameters=facts.get("parameters", {}),
        compares_ranks=facts.get("compares_ranks", False),
    )


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(each) if isinstance(each, list) else each for name, each in facts.items()}
