"""Checks that a test can make on its trace, and the messages if they fail."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gradscope.analysis.findings import Severity
from gradscope.analysis.graph.memory import saved_peak
from gradscope.analysis.graph.reached import parameters
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.report import Report, inspect
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import LEVELS, Rule, require
from gradscope.callbacks.golden import WIDTH, Golden, another_graph, plain
from gradscope.errors import UsageError
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.report import findings_lines
from gradscope.scene.readable import byte_count, plural
from gradscope.trace.schema import Module, Node, Op, Saved, Tensor
from gradscope.trace.trace import Trace

ALL = "all"
BIRTH = "non-finite-birth"
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20,
         "gib": 2**30}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checks:
    """The arguments of `@pytest.mark.gradscope(…)`. Without arguments, all rules are checked."""

    no_nan: bool = False  # no operation produces a harmful NaN or Inf
    all_params_reached: bool = False  # every parameter of the called modules gets a gradient
    max_saved: str | int | None = None  # "2MB": limit for values saved for backward at one time
    same_graph: str | None = None  # a golden trace, next to the test file
    rules: tuple[str, ...] = ()  # these rules find nothing; "all": no rule does
    level: str | None = None  # None: the lowest level at which all of this can be checked
    on: str | None = None  # torch, gradscope, auto

    @classmethod
    def of(cls, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Self:
        """The checks from the arguments of the mark."""
        known = [each.name for each in fields(cls)]
        wrong = [str(each) for each in arguments] + [each for each in options if each not in known]
        if wrong:
            raise UsageError(f"mark.gradscope accepts {', '.join(known)}; not {', '.join(wrong)}")
        rules = options.get("rules", ())
        rules = (rules,) if isinstance(rules, str) else tuple(rules)
        checks = cls(**{**options, "rules": rules})
        for name in checks.rules:
            if name != ALL:
                require(all_rules(), name)
        if checks.max_saved is not None:
            size_of(checks.max_saved)
        return checks

    @property
    def asked(self) -> tuple[Rule, ...]:
        """The rules that must find nothing."""
        others = self.all_params_reached or self.max_saved is not None or self.same_graph
        names = self.rules or (() if self.no_nan or others else (ALL,))
        if ALL in names:
            return all_rules()
        names += (BIRTH,) * self.no_nan
        return tuple(dict.fromkeys(require(all_rules(), name) for name in names))

    def lowest_level(self) -> str:
        """The requested level, or the lowest one at which everything can be checked."""
        needs = ["engine", *(rule.needs for rule in self.asked)]
        return self.level or max(needs, key=LEVELS.index)


def problems(trace: Trace, checks: Checks, golden: Golden | None) -> Iterator[str]:
    """Messages about failed checks, of several lines each."""
    if not len(trace.table(Node)) and not len(trace.table(Op)):
        yield "nothing was recorded: no operation and no backward ran on the recorded engine"
        return
    yield from _found(trace, checks)
    if checks.all_params_reached:
        yield from _unreached(trace)
    if checks.max_saved is not None:
        yield from _too_much_saved(trace, size_of(checks.max_saved))
    if golden is not None:
        yield from another_graph(trace, golden)


def size_of(text: str | int) -> int:
    """Number of bytes of "2MB", "512 KiB" or 4096."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).casefold(), re.ASCII)
    if match is None or match[2] not in SIZES:
        raise UsageError(f'max_saved expects bytes, such as 4096, "2MB" or "512KiB", not {text!r}')
    return int(float(match[1]) * SIZES[match[2]])


def findings_text(report: Report) -> str:
    """The findings as printed by `gradscope inspect`."""
    return plain(findings_lines(report.findings, WIDTH, UNICODE))


def _found(trace: Trace, checks: Checks) -> Iterator[str]:
    rules = checks.asked
    if not rules:
        return
    report = inspect(trace, rules=[rule.id for rule in rules])
    if checks.rules and ALL not in checks.rules:
        for each in report.unchecked:
            yield f"{each.rule} {each.slug} was not checked: {each.reason}"
        yield from (each.words for each in report.faults if each.rule)
    if report.at_least(Severity.WARNING):
        yield findings_text(report)


def _unreached(trace: Trace) -> Iterator[str]:
    if not len(trace.table(Module)):
        yield "all_params_reached: no module was called"
        return
    found = parameters(trace)
    if found.unreached:
        names = ", ".join(found.unreached)
        few = f"{len(found.unreached):,} of {plural(len(found.all), 'parameter')}"
        yield f"all_params_reached: no backward reached {few}: {names}"


def _too_much_saved(trace: Trace, most: int) -> Iterator[str]:
    peak = saved_peak(trace)
    if peak.bytes <= most:
        return
    by_place: dict[str, int] = defaultdict(int)
    nodes, tensors = trace.table(Node), trace.table(Tensor)
    counted: set[int] = set()
    for row in trace.rows(Saved):
        storage = tensors.row(row.tensor).storage if tensors.has(row.tensor) else -2 - row.id
        if row.t <= peak.t and not 0 <= row.released <= peak.t and storage not in counted:
            counted.add(storage)
            node = nodes.row(row.node) if nodes.has(row.node) else None
            place = str(site_of(trace, node.stack)) if node else ""
            by_place[f"{node.name if node else '?'} {place}".rstrip()] += row.bytes
    largest = sorted(by_place.items(), key=lambda each: -each[1])[:5]
    lines = [f"    {byte_count(size)} by {place}" for place, size in largest]
    kept = f"{byte_count(peak.bytes)} were saved for backward at the peak"
    head = f"max_saved: {kept}, more than {byte_count(most)}"
    yield "\n".join([head, *lines])
