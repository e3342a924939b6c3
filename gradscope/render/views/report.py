"""The report of `inspect` as text, worst findings first. For programs: `render/reports`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gradscope.analysis.findings import Certainty, Finding, Severity
from gradscope.analysis.identity.fingerprints import shortened
from gradscope.analysis.report import Report
from gradscope.analysis.rules.registry import Rule
from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.paths import ShortPaths
from gradscope.render.terminal.styles import ACCENT, BOLD, GOOD, SEVERITY_STYLES, SOFT, WARN
from gradscope.render.views.tables import table_lines
from gradscope.scene.readable import count, plural
from gradscope.scene.report import found_in, headline, report_tables, verdict
from gradscope.scene.timeline.summaries import training_table

MOST = 1_000_000
INDENT = "    "
FEW = 3
NUMBERS = "values of results and gradients (NaN/Inf); "
"""What is checked only at level `values` and higher."""
PARTLY = (
    "weights, gradients and some activations, only in the first 4 steps and then in fewer; use "
    "--level values for all steps"
)
"""What is checked at lower levels."""
TIMES = "for tables of times, use --rows N or --all"
GRADIENTS = "how ranks combined each gradient: gradscope audit TRACES"
BAD, GOOD_CODE = "Example:", "Use instead:"


def report_lines(
    report: Report, width: int, charset: Charset, rows: int, *, times: bool = True, note: str = ""
) -> Iterator[Text]:
    """The report as text: the trace in two lines, findings, tables of times; the verdict last.

    `note`: which rules were chosen, and by what.
    """
    for number, text in enumerate(headline(report)):
        for part in wrapped(charset, text, width):
            yield line((part, BOLD if number == 0 else SOFT))
    yield line("")
    shown = report.findings[:rows] if rows else report.findings
    yield from findings_lines(shown, width, charset, (*report.findings, *report.known))
    training = training_table(report.run, rows or MOST)
    if training is not None:
        yield from table_lines(training, width, charset)
        yield line("")
    tables = report_tables(report, rows or MOST)
    for table in tables if times else ():
        yield from table_lines(table, width, charset)
        yield line("")
    for text in (*(fault.words for fault in report.faults), *_unchecked(report)):
        for part in wrapped(charset, text, width):
            yield line((part, WARN))
    for text in _of_known(report):
        yield line((text, SOFT))
    for part in wrapped(charset, note, width) if note else ():
        yield line((part, SOFT))
    if tables and not times:
        yield line((TIMES, SOFT))
    if report.summary.backwards and any(each.collectives for each in report.ranks):
        yield line((GRADIENTS, SOFT))
    for part in wrapped(charset, verdict(report, rows), width):
        yield line((part, BOLD if report.at_least(Severity.WARNING) else GOOD))


def findings_lines(
    shown: Sequence[Finding], width: int, charset: Charset, others: Sequence[Finding] = ()
) -> Iterator[Text]:
    """Findings, each followed by an empty line; their short ids are unique among `others` too."""
    ids = shortened([each.id for each in (*shown, *others)])
    for finding in shown:
        yield from _finding(finding, ids[finding.id], width, charset)
        yield line("")


def _unchecked(report: Report) -> Iterator[str]:
    """Rules that could not be checked, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for each in report.unchecked:
        above = f"{NUMBERS * (each.needs == 'values')}use --level {each.needs}"
        reason = above if each.command else each.reason
        reasons.setdefault(reason, []).append(f"{each.rule} {each.slug}")
    for reason, rules in reasons.items():
        more = f" and {count(len(rules) - FEW)} more" if len(rules) > FEW else ""
        yield f"not checked: {reason} ({', '.join(rules[:FEW])}{more})"
    if report.partly:
        yield f"checked in part ({plural(len(report.partly), 'rule')}): {PARTLY}"


def _of_known(report: Report) -> Iterator[str]:
    """How many findings the file of known findings matched."""
    if report.known:
        yield f"{plural(len(report.known), 'known finding')} left out"
    if report.gone:
        were = "was" if report.gone == 1 else "were"
        yield f"{plural(report.gone, 'known finding')} {were} not found; --write-known forgets them"


def _finding(finding: Finding, id: str, width: int, charset: Charset) -> Iterator[Text]:
    word = finding.severity.name.lower()
    head = f"{word} {finding.rule} "
    message, why, fix = ShortPaths().all((finding.message, finding.why, finding.fix))
    first, *more = wrapped(charset, f"{message} [{finding.slug} #{id}]", width - len(head))
    yield line((word, SEVERITY_STYLES[finding.severity]), f" {finding.rule} ", (first, BOLD))
    for part in more:
        yield line(" " * len(head), (part, BOLD))
    if finding.site.text:
        room = width - len(INDENT)
        where = found_in(finding)
        place = f"{finding.site.place}{f' ({where})' * bool(where)}: "
        text = charset.fit(place + finding.site.text, room).rstrip()
        yield line(INDENT, (text, ACCENT))
    certainty = "" if finding.certainty is Certainty.CERTAIN else str(finding.certainty)
    for name, text in (("why", why), ("fix", fix), ("certainty:", certainty)):
        if text:
            yield from _labelled(name, text, width, charset)


def _labelled(name: str, text: str, width: int, charset: Charset) -> Iterator[Text]:
    label = f"{INDENT}{name:<4} "
    for part in wrapped(charset, text, width - len(label)):
        yield line((label, SOFT), part)
        label = " " * len(label)


def rules_lines(rules: Sequence[Rule], width: int, charset: Charset) -> Iterator[Text]:
    """A list of rules: id, slug and what each looks for."""
    names = [f"{each.id} {each.slug}" for each in rules]
    room = max(map(len, names)) + 2
    for name, each in zip(names, rules, strict=True):
        first, *more = wrapped(charset, each.explained.what, width - room)
        yield line((f"{name:<{room}}", BOLD), first)
        for part in more:
            yield line(" " * room, part)
    yield line("")
    yield line((f"gradscope inspect --explain {rules[0].slug} shows one with an example", SOFT))


def rule_lines(rule: Rule, width: int, charset: Charset) -> Iterator[Text]:
    """What `--explain` and docs/rules say about a rule."""
    told = rule.explained
    yield line((f"{rule.id} {rule.slug}", BOLD))
    yield line((charset.fit(rule_facts(rule), width).rstrip(), SOFT))
    for number, paragraph in enumerate((told.what, *told.why)):
        yield line("")
        for part in wrapped(charset, paragraph, width):
            yield line((part, "" if number else BOLD))
    for title, code in ((BAD, told.bad), (GOOD_CODE, told.good)):
        if code:
            yield line("")
            yield line((title, BOLD))
            for text in code.split("\n"):
                yield line((charset.fit(f"{INDENT}{text}", width).rstrip(), ACCENT))


def rule_facts(rule: Rule) -> str:
    """The severity of a rule, and the levels of traces it can check."""
    said = f"{rule.severity.name.lower()}, needs a trace at level {rule.needs} or higher"
    return f"{said}; checks every step at level {rule.fully} or higher" if rule.fully else said
