"""What `inspect` has to say about a trace: findings, what was not checked, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.modules import ModuleFacts, modules
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import Rule, choose
from gradscope.analysis.summary import Summary, summary
from gradscope.analysis.timing.durations import Timing, timing_by_node_name, timing_by_op
from gradscope.analysis.timing.phases import Part
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that cannot tell: the level was too low, or what it reads could not be seen."""

    rule: str
    slug: str
    needs: str
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of `gradscope inspect`."""

    findings: tuple[Finding, ...]  # worst first
    checked: tuple[str, ...]  # the ids of the rules that looked
    unchecked: tuple[Unchecked, ...]
    summary: Summary
    nodes: tuple[Timing, ...]
    ops: tuple[Timing, ...]  # of the forward pass
    backward_ops: tuple[Timing, ...]  # in hooks, custom functions, under create_graph
    optimizer_ops: tuple[Timing, ...]
    modules: tuple[ModuleFacts, ...]

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of this severity or worse."""
        return tuple(finding for finding in self.findings if finding.severity >= severity)


def inspect(trace: Trace, *, rules: Sequence[str] = (), ignore: Sequence[str] = ()) -> Report:
    """Look a trace over with all rules, or with those chosen by id or slug."""
    chosen = choose(all_rules(), rules, ignore)
    able = [rule for rule in chosen if rule.can_check(trace)]
    return Report(
        findings=_worst_first(trace, able),
        checked=tuple(rule.id for rule in able),
        unchecked=tuple(
            Unchecked(
                rule.id, rule.slug, rule.needs, () if rule.is_above(trace) else rule.lacks(trace)
            )
            for rule in chosen
            if rule not in able
        ),
        summary=summary(trace),
        nodes=timing_by_node_name(trace),
        ops=timing_by_op(trace, Part.FORWARD),
        backward_ops=timing_by_op(trace, Part.BACKWARD),
        optimizer_ops=timing_by_op(trace, Part.OPTIMIZER),
        modules=modules(trace),
    )


def _worst_first(trace: Trace, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    found = [finding for rule in rules for finding in rule.findings(trace)]
    return tuple(sorted(found, key=lambda finding: -finding.severity))  # stable: in order within
