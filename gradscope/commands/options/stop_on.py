"""`gradscope trace --stop-on` and `--around`: what they wait for, and their messages."""

from typing import TYPE_CHECKING

from gradscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.analysis.findings import Finding
    from gradscope.analysis.rules.registry import Rule
    from gradscope.debug.live.ends import StopOnFinding
    from gradscope.trace.trace import Trace

KINDS = {"nan": ("nan",), "inf": ("posinf", "neginf")}
"""Names that are accepted besides rules, and the columns that count them."""

AROUND = ("nan", "inf", "spike", "exception")
"""What `--around` accepts besides rules."""
TAKES = {
    "--stop-on": "nan, inf or rule:SLUG",
    "--around": "nan, inf, spike, exception or rule:SLUG",
}
RULE = "rule:"
BIRTH = "non-finite-birth"


class Waited:
    """The finding to wait for; `findings`: those that were found."""

    def __init__(self, names: list[str], option: str = "--stop-on") -> None:
        from gradscope.analysis.rules import all_rules
        from gradscope.analysis.rules.registry import require

        wrong = [name for name in names if name not in KINDS and not name.startswith(RULE)]
        if wrong:
            raise UsageError(f"{option} takes {TAKES[option]}, not {wrong[0]!r}")
        self._option = option
        self.words = " or ".join(names)
        self.kinds = frozenset(name for name in names if name in KINDS)
        self._birth = require(all_rules(), BIRTH)
        named = [name.removeprefix(RULE) for name in names if name not in KINDS]
        self._rules = [require(all_rules(), name) for name in named]
        self.findings: tuple[Finding, ...] = ()

    def level(self, asked: str) -> str:
        """The requested level, or a higher one if it is needed."""
        from gradscope.analysis.rules.registry import LEVELS

        needs = [rule.needs for rule in self._looking()]
        return asked if asked not in LEVELS else max([asked, *needs], key=LEVELS.index)

    def ends(self) -> "StopOnFinding":
        from gradscope.debug.live.ends import StopOnFinding

        hint = "" if self._rules else "inf" if "inf" in self.kinds else "nan"
        return StopOnFinding(self._judge, hint, self._option)

    def lines(self, width: int) -> list[str]:
        """The findings, as printed by `inspect`."""
        from gradscope.render.terminal.cells import UNICODE
        from gradscope.render.views.recorded import EXPLANATION_WIDTH
        from gradscope.render.views.report import findings_lines

        width = min(width, EXPLANATION_WIDTH)
        return [each.plain.rstrip() for each in findings_lines(self.findings, width, UNICODE)]

    def _looking(self) -> "list[Rule]":
        return [*self._rules, *[self._birth] * bool(self.kinds)]

    def _judge(self, trace: "Trace") -> bool:
        self.findings = tuple(self._found(trace))
        return bool(self.findings)

    def _found(self, trace: "Trace") -> "Iterator[Finding]":
        """The findings that are not notes; for an origin, also those that led to it."""
        from gradscope.analysis.findings import Severity
        from gradscope.analysis.report import Guard, findings_of

        for rule in self._looking():
            every = findings_of(trace, rule, Guard()) if rule.can_check(trace) else []
            found = [each for each in every if each.severity >= Severity.WARNING]
            if rule in self._rules or any(self._is_of_kind(trace, each) for each in found):
                yield from found

    def _is_of_kind(self, trace: "Trace", found: "Finding") -> bool:
        from gradscope.trace.schema import Value

        rows = [each.id for each in found.evidence if each.table == Value.TABLE]
        values = [trace.table(Value).row(id) for id in rows if trace.table(Value).has(id)]
        return any(
            getattr(row, name) for row in values for kind in self.kinds for name in KINDS[kind]
        )
