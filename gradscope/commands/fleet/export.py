"""`gradscope export`: the traces of a run as Parquet files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.output import safe, working
from gradscope.errors import ExitCode, GradscopeError, UnreadableTraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.fleet.export.exporter import Added, Exporter


def export(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="Traces of the ranks of one run.")
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Folder to add them to. It may be new.")
    ],
    run: Annotated[
        str, typer.Option("--run", metavar="NAME", help="Name of the run, such as lr3e-4.")
    ],
    commit: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Commit of the program, to compare commits by."),
    ] = None,
    unfinished: Annotated[
        bool,
        typer.Option(
            "--unfinished",
            help="Also add the last step of a program that was killed in it.",
        ),
    ] = False,
    no_findings: Annotated[
        bool,
        typer.Option(
            "--no-findings", help="Leave out what `gradscope inspect` finds: this is faster."
        ),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace other recordings of these ranks that the run has."),
    ] = False,
) -> None:
    """Add the traces of a run to a folder of Parquet files.

    Questions across ranks and runs are asked of that folder. Run this again when the traces have
    grown: it adds the steps that have ended since. What the folder has is not added again.
    """
    from gradscope.fleet.export.exporter import Exporter, ExportOptions

    options = ExportOptions(commit, unfinished, not no_findings, replace)
    exporter = Exporter(to, run, options)
    added, code = _each(exporter, traces)
    folder = safe(str(to))
    sys.stdout.write(f"{_words(added, folder, run)}\n")
    if added:
        sys.stdout.write(f"next: gradscope ask {folder}\n")
    if code:
        raise typer.Exit(code)


def _each(exporter: "Exporter", traces: "Sequence[Path]") -> "tuple[list[Added], int]":
    """What was added of each trace; those that cannot be exported are named, and skipped."""
    added: list[Added] = []
    code = 0
    for number, trace in enumerate(traces, 1):
        try:
            with working():
                one = exporter.add(trace)
        except OSError as error:
            raise GradscopeError(
                f"cannot write in {exporter.fleet}: {error.strerror or error}; what was added "
                "before is complete"
            ) from None
        except GradscopeError as error:
            skipped = f"; skipped, {number} of {len(traces)}" if len(traces) > 1 else ""
            sys.stderr.write(f"gradscope: error: {safe(str(error))}{skipped}\n")
            unreadable = isinstance(error, UnreadableTraceError)
            code = ExitCode.UNREADABLE if unreadable else code or ExitCode.MISUSED
            continue
        for fault in one.faults:
            sys.stderr.write(f"gradscope: {safe(fault)}\n")
        added.append(one)
    return added, code


def _words(added: "Sequence[Added]", folder: str, run: str) -> str:
    """What was added, in one line; which steps were not."""
    from gradscope.analysis.ranks.whose import listed
    from gradscope.scene.readable import byte_count, plural

    running = [one for one in added if one.running]
    more = ""
    if running:
        ranks = listed([one.rank for one in running])
        more = (
            f"; not added: the last step of {ranks}, which had not ended (if the program was "
            "killed, add --unfinished)"
        )
    new = [one for one in added if one.bytes]
    if not new:
        return f"nothing new for {folder}{more}"
    steps, rows = max(one.steps for one in new), sum(one.rows for one in new)
    size = byte_count(sum(one.bytes for one in new))
    return (
        f"added to {folder}, run {run}: {listed([one.rank for one in new])}, "
        f"{plural(steps, 'new step')}, {rows:,} rows, {size}{more}"
    )
