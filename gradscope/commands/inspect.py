"""`gradscope inspect`: problems in a trace, where the time went, and questions about one thing."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.arguments import Everything, MaybeTracePaths, Plain, Rank, Width
from gradscope.commands.options.fixing import AppliesFixes, ShowsFixes, show_fixes
from gradscope.commands.options.output import load, terminal, working, write_bytes
from gradscope.commands.options.questions import (
    ANode,
    AnOp,
    ATensor,
    EveryHook,
    GradOf,
    Limits,
    MemoryUse,
    WhatCaptured,
    WhatCompiled,
    WhoHolds,
    WhyNone,
    WhyThen,
    one_asked,
    show_answer,
)
from gradscope.commands.options.settings import (
    DEFAULT,
    Choice,
    names_in,
    settings_here,
    severities_and_rules,
)
from gradscope.errors import ExitCode, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from gradscope.analysis.findings import Severity
    from gradscope.analysis.report import Report
    from gradscope.analysis.rules.registry import Rule
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.trace.trace import Trace


_finding_option = partial(typer.Option, rich_help_panel="Findings")
_output_option = partial(typer.Option, rich_help_panel="Output")
TEXT, JSON, SARIF, GITHUB = FORMATS = ("text", "json", "sarif", "github")
EVERY = "all"
ReportFormat = Annotated[
    str,
    _output_option(
        "-f",
        "--format",
        help="text, json, sarif, or github (annotations of a workflow).",
        metavar="FORMAT",
    ),
]
FailOn = Annotated[
    list[str] | None,
    _finding_option(
        help="Exit with 1 on: error, warning (the default; includes errors), note, never, or "
        "rules (GS401, GS4, graph-cut). Can be given several times.",
        metavar="WHAT",
    ),
]
Known = Annotated[
    Path | None,
    _finding_option(help="Do not report findings listed in this file.", metavar="FILE"),
]
Rows = Annotated[
    int | None,
    _output_option(
        help="Show the tables of times, or an answer, with up to N lines each.", min=1, metavar="N"
    ),
]
ROWS = 8
WriteKnown = Annotated[
    bool,
    _finding_option("--write-known", help="Write all findings to the --known file."),
]
AsJson = Annotated[bool, _output_option("--json", help="Same as --format json.")]
OnlyRules = Annotated[
    list[str] | None,
    _finding_option(
        "--select",
        "--rule",
        help="Check only these rules (GS401, GS4 for all that begin so, or graph-cut), and not "
        "those that pyproject.toml chooses. Can be given several times.",
        metavar="RULE,…",
    ),
]
NotRules = Annotated[
    list[str] | None,
    _finding_option(help="Do not check these rules. Can be given several times.", metavar="RULE,…"),
]
Explain = Annotated[
    str | None,
    _finding_option(
        help="Explain a rule, or list the rules about a word (--explain nan), or all.",
        metavar="RULE",
    ),
]


def inspect(
    trace: MaybeTracePaths = None,
    json: AsJson = False,
    select: OnlyRules = None,
    ignore: NotRules = None,
    format: ReportFormat = TEXT,
    fail_on: FailOn = None,
    known: Known = None,
    write_known: WriteKnown = False,
    node: ANode = None,
    tensor: ATensor = None,
    op: AnOp = None,
    why_none: WhyNone = None,
    grad_of: GradOf = None,
    who_holds: WhoHolds = None,
    order: WhyThen = None,
    hooks: EveryHook = False,
    memory: MemoryUse = False,
    captured: WhatCaptured = False,
    compiled: WhatCompiled = False,
    roofline: Limits = False,
    explain: Explain = None,
    fix: ShowsFixes = False,
    apply: AppliesFixes = False,
    rank: Rank = None,
    rows: Rows = None,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Report problems in a trace, and where the time went."""
    out = terminal(plain=plain, width=width)
    if explain is not None:
        _explain(explain, out)
        return
    if not trace:
        raise UsageError("inspect needs a trace: gradscope inspect TRACE")
    shape = _shape(format, json=json)
    options = Choice(names_in(select), names_in(ignore), names_in(fail_on))
    chosen = _Chosen(options.over(settings_here()), known, write_known)
    fails = _what_fails(chosen.choice.fail_on or [DEFAULT])
    asked = one_asked({
        "node": node, "tensor": tensor, "op": op, "why_none": why_none, "grad_of": grad_of,
        "who_holds": who_holds, "order": order, "hooks": hooks, "memory": memory,
        "captured": captured, "compiled": compiled, "roofline": roofline,
    })  # fmt: skip
    _check(shape, fix=fix, apply=apply, asked=asked is not None)
    loaded, many = load(trace, rank), 0 if everything else rows
    if asked is not None:
        show_answer(loaded, asked, out, many, as_json=shape == JSON)
        return
    with working():
        report = chosen.report(loaded)
    if fix:
        report = show_fixes(loaded, report, out, apply=apply)
    else:
        _show(report, loaded, chosen, _shown_as(report, shape, many), out)
    if _fails(report, fails):
        raise typer.Exit(ExitCode.FOUND)


def _check(shape: str, *, fix: bool, apply: bool, asked: bool) -> None:
    """Raise UsageError for options that cannot be combined."""
    if asked and shape in {SARIF, GITHUB}:
        raise UsageError(f"--format {shape} is for findings; an answer has --json")
    if apply and not fix:
        raise UsageError("--apply writes what --fix shows: add --fix")
    if fix and (asked or shape != TEXT):
        raise UsageError("--fix shows findings as text; with --json they have it as `rewrite`")


@dataclass(frozen=True)
class _Chosen:
    """Which findings are selected."""

    choice: Choice
    known: Path | None
    write_known: bool

    def __post_init__(self) -> None:
        if self.write_known and self.known is None:
            raise UsageError("--write-known needs a file: add --known findings.json")

    def report(self, trace: "Trace") -> "Report":
        from gradscope.analysis.report import inspect as look_over

        rules, ignored = self.choice.select, self.choice.ignore
        if self.known is not None and self.write_known:
            _write_known(self.known, look_over(trace, rules=rules, ignore=ignored))
        return look_over(trace, rules=rules, ignore=ignored, known=self.known)


def _shape(format: str, *, json: bool) -> str:
    if format not in FORMATS:
        raise UsageError(f"there is no format {format!r}; choose {', '.join(FORMATS)}")
    if json and format not in {TEXT, JSON}:
        raise UsageError(f"--json and --format {format} are two formats; choose one")
    return JSON if json else format


@dataclass(frozen=True)
class _Shown:
    """How a report is shown."""

    shape: str
    rows: int  # 0: all
    times: bool  # tables of them
    fits: bool  # tables only if the whole report fits into the terminal


def _shown_as(report: "Report", shape: str, rows: int | None) -> _Shown:
    """How to show a report; `rows`: as many lines as were asked for, 0: all."""
    from gradscope.analysis.findings import Severity

    asked_for = rows is not None
    times = asked_for or not report.at_least(Severity.WARNING)
    return _Shown(shape, ROWS if rows is None else rows, times, fits=not asked_for)


def _show(
    report: "Report", trace: "Trace", chosen: _Chosen, shown: _Shown, out: "Terminal"
) -> None:
    from gradscope.render.reports import About
    from gradscope.render.reports.github import annotation_lines
    from gradscope.render.reports.json import report_json
    from gradscope.render.reports.sarif import report_sarif
    from gradscope.render.views.report import report_lines

    folder, root = str(trace.meta.get("cwd", "")), os.environ.get("GITHUB_WORKSPACE", "")
    note = chosen.choice.note
    notes = (*trace.notes, *[note] * bool(note))
    about = About(notes, folder, root, chosen.known is not None)
    if shown.shape == TEXT:
        kind = report, out.width, out.charset, shown.rows
        text = [*report_lines(*kind, times=shown.times, note=note)]
        if shown.fits and shown.times and len(text) >= out.height:
            text = [*report_lines(*kind, times=False, note=note)]
        out.show([*text, *_goes_on(trace, out)])
        return
    if shown.shape == GITHUB:
        lines = [*annotation_lines(report, about)]
    elif shown.shape == JSON:
        lines = [report_json(report, notes)]
    else:
        lines = [report_sarif(report, about)]
    write_bytes("".join(f"{each}\n" for each in lines).encode())


def _goes_on(trace: "Trace", out: "Terminal") -> "Iterator[Text]":
    """A line that says that the program still runs."""
    from gradscope.render.terminal.cells import line, wrapped
    from gradscope.trace.shortcomings import GROWING

    for note in trace.notes:
        if note.startswith(GROWING):
            yield from (line(each) for each in wrapped(out.charset, note, out.width))


def _write_known(path: Path, report: "Report") -> None:
    from gradscope.analysis.identity.known import known_text

    try:
        path.write_text(known_text(report.findings), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write the known findings to {path}: {error.strerror}") from None


def _what_fails(names: "Sequence[str]") -> "list[Severity | list[Rule]]":
    """The findings that `--fail-on` selects; none for `never`."""
    try:
        return severities_and_rules(names)
    except UnknownNameError as error:
        raise UsageError(f"--fail-on takes error, warning, note, never or rules: {error}") from None


def _fails(report: "Report", whats: "list[Severity | list[Rule]]") -> bool:
    """Whether a finding makes the exit code 1. Raises UsageError if none of some rules was checked.

    A prefix names several rules: those of them that could be checked count.
    """
    from gradscope.analysis.findings import Severity

    unchecked = {each.rule: f"the rule was not checked: {each.reason}" for each in report.unchecked}
    unchecked |= {each.rule: each.words for each in report.faults}
    failed = False
    for what in whats:
        if isinstance(what, Severity):
            failed = failed or bool(report.at_least(what))
        elif all(each.id in unchecked for each in what):
            raise UsageError(f"--fail-on {what[0].slug}: {unchecked[what[0].id]}")
        else:
            ids = {each.id for each in what}
            failed = failed or any(each.rule in ids for each in report.findings)
    return failed


def _explain(name: str, out: "Terminal") -> None:
    from gradscope.analysis.rules import all_rules
    from gradscope.analysis.rules.registry import require, rules_near
    from gradscope.render.views.report import rule_lines, rules_lines

    rules = all_rules()
    try:
        shown = rule_lines(require(rules, name), out.width, out.charset)
    except UnknownNameError:
        near = rules if name == EVERY else rules_near(rules, name)
        if not near:
            raise
        shown = rules_lines(near, out.width, out.charset)
    out.show(shown)
