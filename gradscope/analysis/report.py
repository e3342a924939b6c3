"""What `inspect` reports about a trace: findings, what was not checked, and the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TypeVar

from gradscope.analysis.answers.compiled_facts import CompiledFacts, compiled
from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.identity.found_at import located
from gradscope.analysis.identity.known import known_ids
from gradscope.analysis.program.modules import ModuleFacts, modules
from gradscope.analysis.program.summary import Summary, recorded_again, summary
from gradscope.analysis.ranks.alike import RanksAlike, ranks_alike
from gradscope.analysis.ranks.findings import of_each_rank
from gradscope.analysis.ranks.waits import NO_WAITS, RankWaits, rank_waits
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import Rule, choose, is_named
from gradscope.analysis.timing.by_line import LineTiming, timing_by_line
from gradscope.analysis.timing.durations import Timing, timing_by_node_name, timing_by_op
from gradscope.analysis.timing.long_run import LongRun
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.errors import fault_text
from gradscope.trace.file.progress import tell
from gradscope.trace.load_save import load
from gradscope.trace.schema import Source
from gradscope.trace.shortcomings import BETWEEN, COMPILED, FIRST, ROWS
from gradscope.trace.trace import Trace

T = TypeVar("T")
NOTHING_COMPILED = CompiledFacts()


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of the report that could not run because of a bug in gradscope."""

    rule: str  # the id of the rule; "" for a part that is not a rule
    what: str  # "GS805 update-ratio", "times of modules"
    error: str  # what was raised, and where

    @property
    def words(self) -> str:
        return f"{self.what} could not run: {self.error}; please report it with the trace"


class Guard:
    """Calls parts of a report, and collects those that could not run."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def tried(self, what: str, make: Callable[[], T], otherwise: T, *, rule: str = "") -> T:
        """What `make` returns; `otherwise` if it raises."""
        try:
            return make()
        except Exception as error:  # noqa: BLE001  a bug in one part, which is reported
            self.faults.append(Fault(rule, what, fault_text(error)))
            return otherwise


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that was not checked: the level was too low, or what it reads was not recorded."""

    rule: str
    slug: str
    needs: str  # the level that the rule needs
    lacks: tuple[str, ...] = ()  # what it reads and was not recorded; else the level was too low
    command: str = ""  # records the program at that level

    @property
    def reason(self) -> str:
        """Why it was not checked, and what to do."""
        if self.lacks == (Source.TABLE,):
            return (
                "the text of the program is not in this trace (redacted, cut off, or recorded with "
                "--no-source)"
            )
        if self.lacks:
            missing = [PART_OF_IT.get(each, each) for each in self.lacks]
            were = "was" if len(missing) == 1 and missing[0] not in IN_WORDS else "were"
            return f"{' and '.join(missing)} {were} not recorded"
        return f"record with --level {self.needs}"


PART_OF_IT = {ROWS: "some rows"}
IN_WORDS = frozenset((FIRST, BETWEEN, COMPILED, *PART_OF_IT.values()))
"""Parts of a run in words; others are names of tables and columns."""


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of `gradscope inspect`."""

    findings: tuple[Finding, ...]  # worst first, without known ones
    checked: tuple[str, ...]  # the ids of the rules that ran
    unchecked: tuple[Unchecked, ...]
    partly: tuple[Unchecked, ...]  # rules that saw some steps only, and what would show all
    summary: Summary
    nodes: tuple[Timing, ...]
    ops: tuple[Timing, ...]  # of the forward pass
    backward_ops: tuple[Timing, ...]  # in hooks, custom functions, under create_graph
    optimizer_ops: tuple[Timing, ...]
    modules: tuple[ModuleFacts, ...]
    lines: tuple[LineTiming, ...]
    waits: RankWaits = NO_WAITS  # of a merged trace
    ranks: tuple[RanksAlike, ...] = ()  # of a merged trace: groups that did the same
    compiled: CompiledFacts = NOTHING_COMPILED
    run: LongRun | None = None  # `steps`: all that ran; `measured`: step, loss, not_finite of some
    known: tuple[Finding, ...] = ()  # found, and listed in the file of known findings
    gone: int = 0  # how many findings of that file were not found
    faults: tuple[Fault, ...] = ()  # rules, and other parts, that could not run
    exit_code: int = 0  # of the script

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity >= severity)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Findings that are not faults of the program; counted separately."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.NOTE)


def inspect(
    trace: Trace | str | PathLike[str],
    *,
    rules: Sequence[str] = (),
    ignore: Sequence[str] = (),
    known: str | PathLike[str] | None = None,
) -> Report:
    """Check a trace, or a trace file, with all rules or those of an id, slug or prefix (`GS4`).

    `known` is a file of findings that are known already; `findings` holds only others.
    """
    trace = trace if isinstance(trace, Trace) else load(trace)
    before = frozenset[str]() if known is None else known_ids(known)
    chosen = [
        rule
        for rule in choose(all_rules(), rules, ignore)
        if rule.applies(trace) or is_named(rule, rules)
    ]
    able = [rule for rule in chosen if rule.can_check(trace)]
    guard = Guard()
    found = worst_first(trace, able, guard)
    failed = {fault.rule for fault in guard.faults}

    def times(what: str, make: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        return guard.tried(f"times of {what}", make, ())

    return Report(
        findings=tuple(each for each in found if each.id not in before),
        checked=tuple(rule.id for rule in able if rule.id not in failed),
        unchecked=tuple(_unchecked(trace, rule) for rule in chosen if rule not in able),
        partly=tuple(_partly(trace, rule) for rule in able if rule.sees_a_part(trace)),
        summary=summary(trace),
        nodes=times("nodes", lambda: timing_by_node_name(trace)),
        ops=times("operations", lambda: timing_by_op(trace, ProgramPart.FORWARD)),
        backward_ops=times("backward", lambda: timing_by_op(trace, ProgramPart.BACKWARD)),
        optimizer_ops=times("optimizers", lambda: timing_by_op(trace, ProgramPart.OPTIMIZER)),
        modules=times("modules", lambda: modules(trace)),
        lines=times("lines", lambda: timing_by_line(trace)),
        compiled=guard.tried("compiled regions", lambda: compiled(trace), NOTHING_COMPILED),
        ranks=guard.tried("groups of ranks", lambda: ranks_alike(trace), ()),
        waits=guard.tried("waits between ranks", lambda: trace.once(rank_waits), NO_WAITS),
        run=guard.tried("summaries of steps", lambda: trace.once(LongRun), None),
        known=tuple(each for each in found if each.id in before),
        gone=len(before - {each.id for each in found}),
        faults=tuple(guard.faults),
        exit_code=int(trace.meta.get("exit_code", 0)),
    )


def worst_in_a_step(trace: Trace) -> Finding | None:
    """The worst warning or error that belongs to a step."""
    found = inspect(trace).at_least(Severity.WARNING)
    return next((each for each in found if each.steps), None)


def _unchecked(trace: Trace, rule: Rule) -> Unchecked:
    if not rule.is_above(trace):
        return Unchecked(rule.id, rule.slug, rule.needs, rule.lacks(trace))
    command = recorded_again(trace, "--level", rule.needs)
    return Unchecked(rule.id, rule.slug, rule.needs, (), command)


def _partly(trace: Trace, rule: Rule) -> Unchecked:
    command = recorded_again(trace, "--level", rule.fully)
    return Unchecked(rule.id, rule.slug, rule.fully, (), command)


OFTEN_FOLLOW = frozenset({
    "training-mode-in-evaluation", "graph-unused", "graph-kept", "vanishing-gradient",
    "exploding-gradient", "unused", "zero-gradient", "never-stepped", "nothing-to-step",
    "gradients-unused",
})  # fmt: skip
"""Rules whose findings often follow from another one, which then comes first."""


def worst_first(trace: Trace, rules: Sequence[Rule], guard: Guard) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for number, rule in enumerate(rules):
        tell("checking rules", number, len(rules))
        found += findings_of(trace, rule, guard)
    tell("summing up times")
    # Stable: otherwise in the order of the rules.
    return tuple(sorted(found, key=lambda each: (-each.severity, each.slug in OFTEN_FOLLOW)))


def findings_of(trace: Trace, rule: Rule, guard: Guard) -> list[Finding]:
    """What a rule finds; if it raises, what it found before that."""
    found: list[Finding] = []
    name = f"{rule.id} {rule.slug}"
    every = rule.findings(trace) if rule.across else of_each_rank(trace, rule.findings)
    guard.tried(name, lambda: found.extend(every), None, rule=rule.id)
    return guard.tried(name, lambda: [located(trace, each) for each in found], found, rule=rule.id)
