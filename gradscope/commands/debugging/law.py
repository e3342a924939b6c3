"""`gradscope law`: run a program as often as a law needs, and say where it is broken."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gradscope.commands.options.arguments import Plain, Width
from gradscope.commands.options.output import load, safe, terminal, write_bytes
from gradscope.commands.options.what_to_record import IsModule, On
from gradscope.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gradscope.analysis.likeness.laws.determinism import Determinism
    from gradscope.commands.debugging.laws.held import Held
    from gradscope.commands.debugging.laws.runs import Program, Run
    from gradscope.scene.answers.answer import Answer
    from gradscope.scene.timeline.law_answer import LawCause

LAWS = ("determinism",)
"""Laws for which the program is run."""

RESUME = "resume"
"""A law of two traces: only the user knows how the program is resumed."""

Law = Annotated[str, typer.Argument(metavar="LAW", help=f"What must hold: {', '.join(LAWS)}.")]
Script = Annotated[
    list[str], typer.Argument(metavar="SCRIPT [ARGS...]", help="The script and its arguments.")
]
Kept = Annotated[
    Path | None, typer.Option(help="Keep the traces in this folder.", metavar="FOLDER")
]
FindsCause = Annotated[
    bool,
    typer.Option(
        "--cause/--no-cause",
        help="If the runs differ, run the program again with one thing held equal after another "
        "(seeds, time, hashes, addresses, threads), to find the cause.",
    ),
]


def law(
    name: Law,
    script: Script,
    module: IsModule = False,
    on: On = "auto",
    keep: Kept = None,
    cause: FindsCause = True,
    json: Annotated[bool, typer.Option("--json", help="Write the answer as JSON.")] = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Run a program twice, and show where the runs differ."""
    _check(name)
    if script[0].startswith("-"):
        raise UsageError(f"options go before the law: gradscope law {script[0]} … {name} …")
    from gradscope.commands.debugging.laws.runs import Program
    from gradscope.scene.timeline.law_answer import law_answer

    with TemporaryDirectory(prefix="gradscope-law-") as folder:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        program = Program(tuple(script), module, on, (keep or Path(folder)).absolute())
        found, runs, why = _determinism(program, looks=cause)
    codes = runs[0].code, runs[1].code
    asked, shown = (name, " ".join(script)), _LawOutput(json, plain, width)
    _show(law_answer(found, codes, why), asked, shown, broken=_is_broken(found, codes))


def of_traces(
    name: str, paths: tuple[Path, Path], *, json: bool, plain: bool, width: int | None
) -> None:
    """Show where two traces break a law."""
    from gradscope.analysis.likeness.laws.determinism import determinism
    from gradscope.analysis.likeness.laws.resume import resumed
    from gradscope.scene.timeline.law_answer import law_answer, resume_answer

    _check(name, (*LAWS, RESUME))
    one, other = load(paths[0]), load(paths[1])
    asked = name, f"{paths[0]} {paths[1]}"
    shown = _LawOutput(json, plain, width)
    if name == RESUME:
        states = resumed(one, other)
        _show(resume_answer(states), asked, shown, broken=bool(states.lost))
    else:
        found = determinism(one, other)
        codes = int(one.meta.get("exit_code", 0)), int(other.meta.get("exit_code", 0))
        _show(law_answer(found, codes, None), asked, shown, broken=_is_broken(found, codes))


def _is_broken(found: "Determinism", codes: tuple[int, int]) -> bool:
    """Whether two runs differ in what they did, or in how they ended."""
    return found.first is not None or codes[0] != codes[1]


def _check(name: str, laws: tuple[str, ...] = LAWS) -> None:
    if name not in laws:
        raise UsageError(f"unknown law '{name}'; choose {' or '.join(laws)}")


class _LawOutput(NamedTuple):
    """How the answer is written."""

    json: bool
    plain: bool
    width: int | None


def _show(answer: "Answer", asked: tuple[str, str], shown: _LawOutput, *, broken: bool) -> None:
    """Write the answer, and exit with 1 if the law is broken."""
    from gradscope.render.views.answers import answer_json, answer_lines

    if shown.json:
        write_bytes(f"{answer_json(answer, *asked)}\n".encode())
    else:
        out = terminal(plain=shown.plain, width=shown.width)
        out.show(answer_lines(answer, out.width, out.charset))
    if broken:
        raise typer.Exit(ExitCode.FOUND)


def _determinism(
    program: "Program", *, looks: bool
) -> "tuple[Determinism, tuple[Run, Run], LawCause | None]":
    """The comparison of two runs, and the cause of their difference."""
    from gradscope.commands.debugging.laws.runs import run

    _say("first run")
    one = run(program, 1)
    _say("second run")
    runs = one, run(program, 2)
    found = _compared(runs)
    if found.first is None or not looks:
        return found, runs, None
    return found, runs, _cause(program, found)


def _cause(program: "Program", found: "Determinism") -> "LawCause":
    """What must be held equal for the difference to go, found by trying."""
    from gradscope.commands.debugging.laws.held import EVERY
    from gradscope.scene.timeline.law_answer import LawCause

    tried = []
    for held in EVERY:
        if not held.works:
            continue
        tried.append(held.name)
        runs = _held_runs(program, held)
        pairs = [_compared((runs[0], other)) for other in runs[1:]]
        if pairs and all(_is_later(each, found) for each in pairs):
            lines = tuple(dict.fromkeys(_lines(runs[0])))
            return LawCause(held.cause, held.advice, lines, tuple(tried), pairs[0].first)
    return LawCause("", "", (), tuple(tried), None)


def _held_runs(program: "Program", held: "Held") -> "list[Run]":
    """Runs with one thing held equal; only one, if the program does not use that thing.

    Where its use cannot be noted there is a third run: two may be the same by chance.
    """
    from gradscope.commands.debugging.laws.runs import run

    notes = held.begin is not None
    runs: list[Run] = []
    for number in (1, 2) if notes else (1, 2, 3):
        _say(f"run {number} with {held.name} held equal")
        runs.append(run(program, number, held))
        if notes and not runs[0].noted:
            break
    return runs


def _is_later(held: "Determinism", found: "Determinism") -> bool:
    """Whether runs no longer differ where they did."""
    if held.first is None or found.first is None:
        return held.first is None
    one, other = (
        (each.what, each.module, each.site.place, each.step) for each in (held.first, found.first)
    )
    return one != other and held.place > found.place


def _lines(run: "Run") -> list[str]:
    here = str(Path.cwd())
    return [f"{what} at {place.removeprefix(f'{here}/')}" for what, place in run.noted]


def _compared(runs: "tuple[Run, Run]") -> "Determinism":
    from gradscope.analysis.likeness.laws.determinism import determinism

    return determinism(load(runs[0].trace), load(runs[1].trace))


def _say(text: str) -> None:
    sys.stderr.write(f"gradscope: {safe(text)}\n")
    sys.stderr.flush()
