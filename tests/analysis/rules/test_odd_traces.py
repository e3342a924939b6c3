"""A rule that raises is one line of the report, and no rule raises on facts it does not expect."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.report import Guard, findings_of, inspect
from gradscope.analysis.rules import all_rules, registry
from gradscope.analysis.rules.registry import Found, Rule
from gradscope.cli import main
from gradscope.render.reports import About
from gradscope.render.reports.github import annotation_lines
from gradscope.render.reports.json import report_json
from gradscope.render.reports.sarif import report_sarif
from gradscope.render.terminal.cells import PLAIN
from gradscope.render.views.recorded import recorded as recorded_at_end
from gradscope.render.views.report import report_lines
from gradscope.scene.viewer.scene import viewer_scene
from gradscope.trace.load_save import load, save
from gradscope.trace.trace import Trace
from tests.analysis.rules.test_snippets import RULES, recorded, snippets
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers
from tests.shared.odd_traces import Change, odd_columns, odd_texts
from tests.shared.searching import SEARCHING


def broken(trace: Trace) -> Iterator[Found]:
    """A rule with a bug in it."""
    yield Found("found before", Site(), (), "", "", severity=Severity.NOTE)
    raise KeyError("no such key")


LINE = (
    "GS201 non-finite-birth could not run: KeyError: 'no such key' "
    f"(test_odd_traces.py:{broken.__code__.co_firstlineno + 3}); please report it with the trace"
)


@pytest.fixture
def with_a_broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(rule for rule in all_rules() if rule.id == "GS201")
    monkeypatch.setitem(registry._RULES, rule.id, replace(rule, function=broken))


@pytest.mark.usefixtures("with_a_broken_rule")
def test_a_rule_that_raises_is_one_line_and_all_others_answer() -> None:
    report = inspect(nan_in_backward())

    assert [fault.words for fault in report.faults] == [LINE]
    assert [each.message for each in report.findings if each.rule == "GS201"] == ["found before"]
    assert "GS201" not in report.checked
    assert (
        len(report.checked) + len(report.unchecked) == sum(rule.always for rule in all_rules()) - 1
    )


@pytest.mark.usefixtures("with_a_broken_rule")
def test_every_format_says_that_a_rule_could_not_run(tmp_path: Path) -> None:
    trace = nan_in_backward()
    path, report = tmp_path / "trace.json", inspect(trace)
    save(trace, path)
    sarif = json.loads(report_sarif(report, About()))["runs"][0]

    assert LINE in [each.plain.rstrip() for each in report_lines(report, 200, PLAIN, 0)]
    assert LINE in recorded_at_end(path, path).summary
    assert json.loads(report_json(report, ()))["faults"] == [asdict(each) for each in report.faults]
    assert sarif["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == LINE
    assert any(each.endswith(f"::{LINE}") for each in annotation_lines(report, About()))
    assert LINE in viewer_scene(trace).facts["limits"]


@pytest.mark.usefixtures("with_a_broken_rule")
def test_the_exit_code_is_as_without_the_rule_that_raises(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    save(mean_of_squares(), path)

    with pytest.raises(SystemExit) as ended:
        main(["inspect", str(path)])

    assert ended.value.code == 0


def test_times_that_raise_are_one_line_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_: Trace) -> tuple[()]:
        raise ValueError("no times\nat all")

    monkeypatch.setattr("gradscope.analysis.report.modules", raises)
    (fault,) = inspect(mean_of_squares()).faults

    assert fault.words.startswith("times of modules could not run: ValueError: no times at all (")


def test_an_optimizer_without_a_learning_rate_is_nothing_to_tell(tmp_path: Path) -> None:
    (rule,) = (rule for rule in RULES if rule.slug == "update-ratio")
    trace = recorded(snippets(rule)[0], tmp_path, rule=rule)
    (without,) = (make() for about, make in odd_columns(trace) if about == "act.step.lr 1")

    assert [each.rule for each in inspect(trace).findings] == ["GS805"]
    assert inspect(without).findings == ()


DOCS = Path(__file__).parents[3] / "docs"
FEW_RULES, FEW_FACTS, FEW_COLUMNS = 12, 15, 4
"""How much of it each run of the tests tries; `make search` tries all."""


def drawn(changes: Iterator[Change], few: int, seed: str) -> list[Change]:
    """Some of the changes, and all of them in a search."""
    every = list(changes)
    return every if SEARCHING else random.Random(seed).sample(every, min(few, len(every)))


def raised(trace: Trace, changes: list[Change], rules: tuple[Rule, ...]) -> list[str]:
    """What the rules raise, each line with the change that made it."""
    found = []
    for about, make in changes:
        odd, guard = make(), Guard()
        for rule in rules:
            if rule.can_check(odd):
                findings_of(odd, rule, guard)
        found += [f"{about}: {fault.words}" for fault in guard.faults]
    return found


def some_rules() -> list[Rule]:
    of_programs = [rule for rule in RULES if not snippets(rule)[0].startswith("gradscope ")]
    return of_programs if SEARCHING else random.Random("rules").sample(of_programs, FEW_RULES)


@pytest.mark.search
@pytest.mark.parametrize("rule", some_rules(), ids=lambda rule: rule.slug)
def test_a_rule_answers_whatever_the_facts_of_its_bad_snippet_are(
    rule: Rule, tmp_path: Path
) -> None:
    trace = recorded(snippets(rule)[0], tmp_path, rule=rule)
    rules = all_rules() if SEARCHING else (rule,)

    assert raised(trace, drawn(odd_texts(trace), FEW_FACTS, rule.id), rules) == []
    for _, make in drawn(odd_columns(trace), FEW_COLUMNS, rule.id):
        inspect(make())  # what its rules raise are faults of the report


KEPT = sorted([*DOCS.glob("engine/*.json"), *DOCS.glob("gallery/*.json")])
TRACES: dict[str, Callable[[], Trace]] = {
    **{f"{path.parent.name}/{path.stem}": lambda path=path: load(path) for path in KEPT},  # type: ignore[misc]
    "by hand: mean of squares": mean_of_squares,
    "by hand: NaN": nan_in_backward,
    "by hand: two layers": two_layers,
}


@pytest.mark.search
@pytest.mark.parametrize("name", TRACES)
def test_all_rules_answer_about_every_trace_whatever_its_facts(name: str) -> None:
    trace = TRACES[name]()

    assert raised(trace, drawn(odd_texts(trace), 2, name), all_rules()) == []
    for _, make in drawn(odd_columns(trace), 2, name):
        inspect(make())
