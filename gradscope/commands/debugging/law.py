"""`gradscope law`: run a program as often as a law needs, and say where it is broken."""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gradscope.commands.options.arguments import Plain, Width
from gradscope.commands.options.output import load, terminal, write_bytes
from gradscope.commands.options.what_to_record import IsModule, On
from gradscope.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gradscope.commands.debugging.laws.runs import LawVerdict

LAWS = ("determinism", "eval", "compiled", "accumulate", "resume")
"""Laws for which a program is run: each is a file of `laws/` with `of_program`."""

LAWS_OF_TRACES = ("determinism", "resume", "accumulate", "compiled")
"""Laws that two traces can show: their files have `of_traces`."""

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
        help="If runs differ, run the program again to find the cause: with one thing held equal "
        "after another (seeds, time, hashes, addresses, threads), or with other backends.",
    ),
]
Whole = Annotated[
    str | None,
    typer.Option(
        help="Further arguments of the script: for accumulate, for a run with whole batches, as in "
        "'--batch 32'; for resume, for a run that is not stopped (default: none).",
        metavar="ARGS",
    ),
]
Parts = Annotated[
    str | None,
    typer.Option(
        help="For accumulate: further arguments for a run with the same batches in parts, as in "
        "'--batch 8 --accumulate 4'.",
        metavar="ARGS",
    ),
]

Save = Annotated[
    str | None,
    typer.Option(
        help="For resume: further arguments for a run that stops early and saves a checkpoint, as "
        "in '--steps 50 --save half.pt'.",
        metavar="ARGS",
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        help="For resume: further arguments for a run that goes on from there to the same end, as "
        "in '--resume half.pt'.",
        metavar="ARGS",
    ),
]


def law(
    name: Law,
    script: Script,
    module: IsModule = False,
    on: On = "auto",
    keep: Kept = None,
    cause: FindsCause = True,
    whole: Whole = None,
    parts: Parts = None,
    save: Save = None,
    resume: Resume = None,
    json: Annotated[bool, typer.Option("--json", help="Write the answer as JSON.")] = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Run a program, mostly twice, and show where it breaks a law."""
    _check(name, LAWS)
    if script[0].startswith("-"):
        raise UsageError(f"options go before the law: gradscope law {script[0]} … {name} …")
    from gradscope.commands.debugging.laws.runs import LawArguments, Program

    with TemporaryDirectory(prefix="gradscope-law-") as folder:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        program = Program(tuple(script), module, on, (keep or Path(folder)).absolute())
        arguments = LawArguments(cause, whole, parts, save, resume)
        verdict = _law(name).of_program(program, arguments)
    _show(verdict, (name, " ".join(script)), _LawOutput(json, plain, width))


def of_traces(
    name: str, paths: tuple[Path, Path], *, json: bool, plain: bool, width: int | None
) -> None:
    """Show where two traces break a law."""
    _check(name, LAWS_OF_TRACES)
    verdict = _law(name).of_traces(load(paths[0]), load(paths[1]))
    _show(verdict, (name, f"{paths[0]} {paths[1]}"), _LawOutput(json, plain, width))


def _law(name: str) -> Any:
    """The file of a law, which is imported only if it is used."""
    return import_module(f"gradscope.commands.debugging.laws.{name}")


def _check(name: str, laws: tuple[str, ...]) -> None:
    if name not in laws:
        raise UsageError(f"unknown law '{name}'; choose {', '.join(laws[:-1])} or {laws[-1]}")


class _LawOutput(NamedTuple):
    """How the answer is written."""

    json: bool
    plain: bool
    width: int | None


def _show(verdict: "LawVerdict", asked: tuple[str, str], shown: _LawOutput) -> None:
    """Write the answer, and exit with 1 if the law is broken."""
    from gradscope.render.views.answers import answer_json, answer_lines

    if shown.json:
        write_bytes(f"{answer_json(verdict.answer, *asked)}\n".encode())
    else:
        out = terminal(plain=shown.plain, width=shown.width)
        out.show(answer_lines(verdict.answer, out.width, out.charset))
    if verdict.broken:
        raise typer.Exit(ExitCode.FOUND)
