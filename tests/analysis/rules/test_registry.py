from __future__ import annotations

import re

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.report import OFTEN_FOLLOW, Guard, worst_first
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import ABOUT, Found, Rule, RuleFunction, rule, rules_near
from gradscope.trace.schema import HISTORY, SINCE
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


@pytest.mark.parametrize(
    "said",
    [{"reads": ("acts",)}, {"reads": ("op.input",)}, {"steps": "every"}, {"needs": "value"}],
)
def test_a_rule_cannot_be_declared_with_a_misspelt_condition(said: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="GS199"):
        rule("GS199", "odd", **said)  # type: ignore[arg-type]


def test_what_rules_read_has_the_version_that_added_it() -> None:
    """Else an older trace, in which nobody looked, would count as checked."""
    read = {name for each in all_rules() for name in each.reads}
    added = {
        name: version
        for version, text in [*HISTORY.items()][1:]
        for name in re.findall(r"[\w.]+", text)
    }

    assert {name: SINCE.get(name) for name in read & set(added)} == {
        name: added[name] for name in read & set(added)
    }
    assert "act" in read & set(added)


def test_a_rule_about_acts_cannot_tell_in_a_trace_that_is_older_than_acts() -> None:
    (unstepped,) = (each for each in all_rules() if each.slug == "never-stepped")
    now = trace_of(meta={"level": "full"})

    before = Trace(now.tables, version=(1, 7))

    assert not unstepped.lacks(now)
    assert unstepped.lacks(before) == ("act",)


@pytest.mark.parametrize(
    ("word", "first", "also"),
    [
        ("detach", "cut-term", "graph-cut"),  # in the first sentence; in the text below it
        ("memory", "graph-kept", "not-a-copy"),
        ("slow", "slow-rank", "pairs-kept"),
        ("grahp-kept", "graph-kept", "graph-kept"),
        ("GS2", "non-finite-birth", "non-finite-seen"),
    ],
)
def test_a_word_is_searched_in_the_whole_explanation_of_rules(
    word: str, first: str, also: str
) -> None:
    found = [each.slug for each in rules_near(all_rules(), word)]

    assert found[0] == first
    assert also in found
    assert len(found) == len({*found})


def test_rules_about_a_word_exist() -> None:
    assert {slug for slugs in ABOUT.values() for slug in slugs} <= {e.slug for e in all_rules()}


def test_findings_that_often_follow_from_others_come_after_them() -> None:
    slugs = ("graph-unused", "no-effect", "exception", "unused", "steps-again")
    levels = {"exception": Severity.ERROR}

    def finds(slug: str) -> RuleFunction:
        severity = levels.get(slug, Severity.WARNING)
        return lambda _: [Found(slug, Site(), (), "", "", severity=severity)]

    rules = [
        Rule(f"GS{n}", slug, Severity.WARNING, "graph", finds(slug)) for n, slug in enumerate(slugs)
    ]
    found = worst_first(trace_of(), rules, Guard())

    assert [each.slug for each in found] == [
        "exception", "no-effect", "steps-again", "graph-unused", "unused",
    ]  # fmt: skip
    assert {each.slug for each in all_rules()} >= OFTEN_FOLLOW
