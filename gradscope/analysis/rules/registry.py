"""How a rule is declared, and how rules are selected."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from textwrap import dedent

from gradscope.analysis.findings import Certainty, Evidence, Finding, Rewrite, Severity
from gradscope.analysis.identity.fingerprints import Fingerprints
from gradscope.analysis.identity.sites import Site
from gradscope.errors import UnknownNameError
from gradscope.trace.schema.declare import is_declared
from gradscope.trace.shortcomings import BETWEEN, COMPILED, FIRST, ROWS, steps_left_out
from gradscope.trace.trace import Trace

STEPS = {"": (), "each": (BETWEEN, ROWS, COMPILED), "first": (FIRST, BETWEEN, ROWS, COMPILED)}
"""What must not have been left out, for each value of `steps` of a rule."""

PREFIX = "GS"
"""The start of every id."""

LEVELS = ("graph", "engine", "values", "full")
FEW = 6
"""Number of similar rules that an error names."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule's function yields; the registry adds the rule's own id and slug."""

    message: str  # what is wrong, and at which line
    site: Site  # that line
    evidence: tuple[Evidence, ...]  # rows of the trace that show it
    why: str  # what follows from it
    fix: str  # what to write instead
    certainty: Certainty = Certainty.CERTAIN
    severity: Severity | None = None  # None: the rule's
    parameters: frozenset[int] = frozenset()  # tensors whose missing gradient it explains
    rewrite: Rewrite | None = None  # see `own_line.rewritten`


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a rule, as `gradscope inspect --explain` shows it."""

    what: str  # one sentence
    why: tuple[str, ...]  # paragraphs
    bad: str  # a program in which the rule finds something
    good: str  # the same program, corrected


RuleFunction = Callable[[Trace], Iterable[Found]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One check of `gradscope inspect`."""

    id: str
    slug: str
    severity: Severity
    needs: str  # see `rule`, as for the rest
    function: RuleFunction
    reads: tuple[str, ...] = ()
    steps: str = ""
    fully: str = ""
    across: bool = False
    asked: Callable[[Trace], bool] | None = None

    @property
    def always(self) -> bool:
        """Whether it is a rule for the trace of any process."""
        return not self.across and self.asked is None

    def applies(self, trace: Trace) -> bool:
        """Whether it is a rule for this trace."""
        if self.across and "ranks" not in trace.meta:
            return False
        return self.asked is None or self.asked(trace)

    @property
    def explanation(self) -> str:
        """The text of `--explain`: description, bad example, good example."""
        return inspect.getdoc(self.function) or ""

    @property
    def explained(self) -> Explanation:
        text, _, both = self.explanation.partition("\nBad:\n")
        bad, _, good = both.partition("\nGood:\n")
        what, *why = (" ".join(part.split()) for part in text.strip().split("\n\n"))
        return Explanation(what, tuple(why), *(dedent(code).strip() for code in (bad, good)))

    @property
    def summary(self) -> str:
        return self.explanation.partition("\n")[0]

    def can_check(self, trace: Trace) -> bool:
        """Whether the trace holds all that this rule needs."""
        return not self.is_above(trace) and not self.lacks(trace)

    def is_above(self, trace: Trace) -> bool:
        """Whether this rule needs a higher level than the trace was recorded at."""
        level = trace.meta.get("level")
        return level in LEVELS and LEVELS.index(level) < LEVELS.index(self.needs)

    def sees_a_part(self, trace: Trace) -> bool:
        """Whether this rule would check more steps at a higher level."""
        level = trace.meta.get("level")
        above = bool(self.fully) and level in LEVELS
        return above and LEVELS.index(str(level)) < LEVELS.index(self.fully)

    def lacks(self, trace: Trace) -> tuple[str, ...]:
        """What this rule reads and could not be recorded, as `meta.absent` says."""
        reads = self.reads
        if self.fully and not self.sees_a_part(trace):  # at this level it reads values
            reads = (*reads, "value")
        lacks = [
            name for name in reads if not (trace.sees(name) and trace.sees(name.partition(".")[0]))
        ]
        left_out = trace.once(steps_left_out) if self.steps else frozenset()
        return (*lacks, *(each for each in STEPS[self.steps] if each in left_out))

    def findings(self, trace: Trace) -> Iterator[Finding]:
        """All findings of this rule in a trace."""
        ids = Fingerprints(trace, self.id)
        for found in self.function(trace):
            severity = self.severity if found.severity is None else found.severity
            yield Finding(
                rule=self.id,
                slug=self.slug,
                severity=severity,
                message=found.message,
                site=found.site,
                evidence=found.evidence,
                why=found.why,
                fix=found.fix,
                certainty=found.certainty,
                id=ids.next(found.site, found.evidence, found.message),
                parameters=tuple(sorted(found.parameters)),
                rewrite=found.rewrite,
            )


_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    slug: str,
    severity: Severity = Severity.WARNING,
    *,
    needs: str = "engine",
    reads: tuple[str, ...] = (),
    steps: str = "",
    fully: str = "",
    across: bool = False,
    asked: Callable[[Trace], bool] | None = None,
) -> Callable[[RuleFunction], RuleFunction]:
    """Declare a rule: a generator of findings, with the explanation as its docstring.

    The rule runs where the trace has what it needs, and is listed under "not checked" elsewhere:

    needs   the lowest capture level the rule needs: "graph", "engine", "values" or "full"
    reads   what must be in the trace: tables ("act", "source"), kinds of events ("accumulate"),
            or columns of both ("op.inputs"); not what is always there
    steps   which steps must be complete: "each" one (it counts, or looks for what never happens),
            or from the "first" one on (it needs the start); "" where any part of a run will do
    fully   the level below which it checks only some steps; it runs anyway, and says so
    across  it compares ranks: it gets a merged trace as a whole, and not rank by rank
    asked   it is about what an option of `trace` records: whether that was recorded
    """
    assert {needs, fully or needs} <= {*LEVELS}, f"{id}: the levels are {LEVELS}"
    assert steps in STEPS, f"{id}: {steps!r} is none of {[*STEPS]}"
    assert all(map(is_declared, reads)), f"{id} reads what no trace declares: {reads}"

    def declare(function: RuleFunction) -> RuleFunction:
        assert id not in _RULES, f"two rules have the id {id}"
        _RULES[id] = Rule(id, slug, severity, needs, function, reads, steps, fully, across, asked)
        return function

    return declare


def registered() -> tuple[Rule, ...]:
    """The rules declared so far, by id."""
    return tuple(_RULES[id] for id in sorted(_RULES))


def choose(rules: Sequence[Rule], wanted: Sequence[str], ignored: Sequence[str]) -> list[Rule]:
    """The rules selected by ids, slugs or prefixes of ids; all of them if none is named.

    The longer name decides: of `GS4` and `GS401`, the second; of two equal ones, the ignored.
    """
    for name in (*wanted, *ignored):
        require_some(rules, name)
    return [rule for rule in rules if _fit(rule, wanted or (PREFIX,)) > _fit(rule, ignored)]


def require(rules: Sequence[Rule], name: str) -> Rule:
    """The rule with this id or slug."""
    for each in rules:
        if is_named(each, [name]):
            return each
    near = [f"{each.id} ({each.slug})" for each in rules_near(rules, name)[:FEW]]
    hint = f"near it: {', '.join(near)}; " * bool(near)
    raise UnknownNameError(
        f"there is no rule {name!r}; {hint}`gradscope inspect --explain all` lists every rule"
    )


def require_some(rules: Sequence[Rule], name: str) -> list[Rule]:
    """The rules with this id, slug or prefix of an id: `GS401`, `GS4`, `graph-cut`."""
    return [each for each in rules if _fit(each, [name])] or [require(rules, name)]


HELD = ("graph-kept", "graph-unused", "hook-holds-its-tensor", "output-on-ctx", "pairs-kept")
WASTED = (
    "walked-again", "graph-kept", "gradients-unused", "graph-unused", "pairs-kept", "slow-rank",
)  # fmt: skip
ABOUT = {
    **dict.fromkeys(("memory", "leak", "oom"), (*HELD, "graph-on-grad")),
    **dict.fromkeys(("slow", "speed", "performance", "time"), WASTED),
}
"""Rules about a word that their texts need not have."""


def rules_near(rules: Sequence[Rule], word: str) -> list[Rule]:
    """Rules about a word, ranked by where they have it: id or slug, first sentence, other text."""
    folded = word.casefold()
    whole = re.compile(rf"\b{re.escape(folded)}")
    by_slug = {each.slug: each for each in rules}
    ranked = (
        [each for each in rules if folded in each.slug or folded in each.id.casefold()],
        [by_slug[slug] for slug in ABOUT.get(folded, ()) if slug in by_slug],
        [each for each in rules if whole.search(each.explained.what.casefold())],
        [each for each in rules if whole.search(" ".join(each.explained.why).casefold())],
    )
    found = list({each.id: each for several in ranked for each in several}.values())
    return found or [by_slug[slug] for slug in get_close_matches(folded, [*by_slug], FEW)]


def is_named(rule: Rule, names: Sequence[str]) -> bool:
    """Whether its id or slug is among these names."""
    folded = {name.casefold() for name in names}
    return rule.id.casefold() in folded or rule.slug in folded


def _fit(rule: Rule, names: Sequence[str]) -> int:
    """How many characters of its id the best of these names has: all for a slug, 0 for none."""
    if is_named(rule, names):
        return len(rule.id)
    folded = (name.upper() for name in names)
    fits = (len(name) for name in folded if name.startswith(PREFIX) and rule.id.startswith(name))
    return max(fits, default=0)
