"""`gradscope ask`: questions to a fleet of traces, which `gradscope export` wrote."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradscope.commands.options.arguments import Everything, Plain, Width
from gradscope.commands.options.output import may_replace, safe, terminal, working, write_bytes
from gradscope.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gradscope.fleet.asking.answer import FleetAnswer
    from gradscope.fleet.asking.folder import Asked, Fleet

_part = partial(typer.Option, rich_help_panel="Part of the fleet")
_output = partial(typer.Option, rich_help_panel="Output")
ROWS = 20


_FleetOption = Annotated[
    Path, typer.Argument(metavar="FLEET", help="Folder of `gradscope export`.")
]
_QuestionOption = Annotated[
    str | None,
    typer.Argument(
        metavar="QUESTION", help="Name of a question, or its file. Without it: list them."
    ),
]
_SqlOption = Annotated[str | None, typer.Option(help="Ask this SQL: one SELECT.", metavar="SELECT")]
_SetOption = Annotated[
    list[str] | None,
    typer.Option(help="Set a parameter of the question. Can be repeated.", metavar="NAME=VALUE"),
]
_OnOption = Annotated[
    str,
    typer.Option(
        help="Ask on a cluster: dask://HOST:PORT or ray://HOST:PORT. It must see the folder.",
        metavar="CLUSTER",
    ),
]
_RunOption = Annotated[
    list[str] | None, _part(help="Only this run. Can be repeated.", metavar="NAME")
]
_RankOption = Annotated[
    list[int] | None, _part(help="Only this rank. Can be repeated.", metavar="R", min=0)
]
_StepsOption = Annotated[
    str, _part(help="Only these steps, as in 3:7 (both included), 3: or 5.", metavar="STEPS")
]
_JsonOption = Annotated[bool, _output("--json", help="Print JSON.")]
_OutputOption = Annotated[
    Path | None, _output("-o", "--output", help="Write a Parquet file.", metavar="FILE")
]
_PageOption = Annotated[
    Path | None,
    _output(help="Write a page with a map of ranks and steps; works offline.", metavar="FILE"),
]
_RowsOption = Annotated[
    int | None, _output(help=f"Show up to N rows. Default: {ROWS}.", min=1, metavar="N")
]


def ask(
    fleet: _FleetOption,
    question: _QuestionOption = None,
    sql: _SqlOption = None,
    set: _SetOption = None,
    on: _OnOption = "",
    run: _RunOption = None,
    rank: _RankOption = None,
    steps: _StepsOption = "",
    json: _JsonOption = False,
    output: _OutputOption = None,
    page: _PageOption = None,
    rows: _RowsOption = None,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Answer questions about an exported folder of traces."""
    from gradscope.fleet.asking.folder import fleet_at
    from gradscope.fleet.packages import needs

    if sql is not None and (question is not None or page is not None or on or set):
        raise UsageError("--sql cannot be combined with a question, --page, --on or --set")
    needs(("duckdb", "pyarrow"))
    found = fleet_at(fleet, _asked(run, rank, steps))
    most = 0 if everything else rows or ROWS
    if sql is not None:
        _ask_sql(found, sql, most, output, as_json=json, plain=plain, width=width)
        return
    if question is None and (page is not None or output is not None or on or set):
        raise UsageError("name a question; `gradscope ask FLEET` lists them")
    if question is None:
        _list_questions(found, as_json=json, plain=plain, width=width)
        return
    answer = _answer(found, question, set or (), on, plot=page is not None)
    if output is not None:
        _write_parquet(output, answer.table)
    if page is not None:
        _write_page(page, answer, found)
    if json:
        write_bytes(_answer_json(answer))
    elif output is None and page is None:
        from gradscope.render.views.fleet_answer import answer_lines

        out, several = terminal(plain=plain, width=width), len(found.runs) > 1
        out.show(answer_lines(answer, out.width, out.charset, most, several=several))
    else:
        _say(answer)
    if answer.damaged:
        raise typer.Exit(ExitCode.UNREADABLE)


def _asked(run: list[str] | None, rank: list[int] | None, steps: str) -> "Asked":
    from gradscope.fleet.asking.folder import Asked

    if not steps:
        return Asked(tuple(run or ()), tuple(rank or ()))
    found = re.fullmatch(r"(\d+)(:(\d*))?", steps)
    if found is None or (found[3] and int(found[3]) < int(found[1])):
        raise UsageError(f"--steps takes 3:7, 3: or 5, not {steps!r}")
    first = int(found[1])
    last = int(found[3]) if found[3] else (first if found[2] is None else 1 << 62)
    return Asked(tuple(run or ()), tuple(rank or ()), (first, last + 1))


def _list_questions(found: "Fleet", *, as_json: bool, plain: bool, width: int | None) -> None:
    from gradscope.fleet.asking.question import questions
    from gradscope.render.views.fleet_answer import question_lines

    known = [*questions().values()]
    if as_json:
        import orjson

        rows = [{"name": e.name, "title": e.title, "reads": e.reads, "words": e.words,
                 "parameters": e.parameters} for e in known]  # fmt: skip
        write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2) + b"\n")
        return
    out = terminal(plain=plain, width=width)
    out.show(question_lines(found, known, out.width, out.charset))


def _answer(
    found: "Fleet", name: str, given: "list[str] | tuple[str, ...]", on: str, *, plot: bool
) -> "FleetAnswer":
    from gradscope.fleet.asking.answer import Asking
    from gradscope.fleet.asking.clusters import cluster_at
    from gradscope.fleet.asking.question import question_called

    question, values = question_called(name), {}
    for each in given:
        key, sign, value = each.partition("=")
        if not sign:
            raise UsageError(f"--set takes NAME=VALUE, not {each!r}")
        values[key] = value
    parameters = question.with_parameters(values)
    with working(), cluster_at(on) as cluster:
        return Asking(found, question, parameters, cluster).answer(plot=plot)


def _ask_sql(
    found: "Fleet",
    sql: str,
    most: int,
    output: Path | None,
    *,
    as_json: bool,
    plain: bool,
    width: int | None,
) -> None:
    """Show, print or write the rows as they are read, so that they need not fit into memory."""
    import orjson

    from gradscope.fleet.asking.free_sql import answered, first_rows
    from gradscope.fleet.asking.written import may_replace_parquet, write_batches
    from gradscope.render.views.fleet_answer import WIDEST, table_of
    from gradscope.render.views.tables import table_lines

    with answered(found, sql) as reader:
        if output is not None:
            may_replace_parquet(output)
            rows = write_batches(output, reader)
            sys.stdout.write(f"wrote {safe(str(output))}: {rows:,} rows\n")
        elif as_json:
            for batch in reader:
                lines = (orjson.dumps(row, default=str) for row in batch.to_pylist())
                write_bytes(b"".join(line + b"\n" for line in lines))
        else:
            shown, more = first_rows(reader, most)
            out = terminal(plain=plain, width=width)
            note = "more rows: --all, --json or -o rows.parquet" if more else ""
            scene = table_of("answer", shown, reader.schema.names, note, whole=not most)
            out.show(table_lines(scene, out.width if most else WIDEST, out.charset))


def _answer_json(answer: "FleetAnswer") -> bytes:
    import orjson

    facts: dict[str, Any] = {
        "question": answer.question.name,
        "title": answer.question.title,
        "words": " ".join(answer.question.words.split()),
        "rows": answer.rows,
        "notes": answer.notes,
        "damaged": answer.damaged,
        "next": answer.next,
    }
    return orjson.dumps(facts, option=orjson.OPT_INDENT_2, default=str) + b"\n"


def _write_parquet(path: Path, table: Any) -> None:
    from gradscope.fleet.asking.written import may_replace_parquet, write_batches

    may_replace_parquet(path)
    write_batches(path, table.to_reader())
    sys.stdout.write(f"wrote {safe(str(path))}: {len(table):,} rows\n")


def _write_page(path: Path, answer: "FleetAnswer", found: "Fleet") -> None:
    from gradscope.render.pictures import put
    from gradscope.render.reports.fleet_page import fleet_page

    content = fleet_page(answer, str(found.root))
    may_replace(path, content)
    put(path, content)
    sys.stdout.write(f"wrote {safe(str(path))}: {len(answer.rows):,} rows\n")


def _say(answer: "FleetAnswer") -> None:
    for note in answer.notes:
        sys.stderr.write(f"gradscope: {safe(note)}\n")
