from __future__ import annotations

import re

import pytest

from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import rule
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
