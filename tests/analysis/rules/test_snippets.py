"""Snippets in the docstrings of rules, run on the runtime: the bad is found, the good is not."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.report import inspect
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import Rule
from gradscope.trace.load_save import load
from gradscope.trace.trace import Trace
from tests.shared.renumbered import renumbered

NO_PROGRAM = {"GS304"}
"""Rules about what no program is known to do; their findings are tested on traces by hand."""

AT_ENGINE = {"GS202"}
"""Rules about what levels above tell in another way."""

RULES = [rule for rule in all_rules() if rule.id not in NO_PROGRAM and rule.always]
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)

AN_ID = re.compile(r"(?<=--around )\d+|(?<=leaf )\d+|(?<=tensor )\d+|(?<=node )\d+")
TRAINING = """
import torch
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w])
for _ in range(60):
    optimizer.zero_grad()
    (w * 2).tanh().sum().backward()
    optimizer.step()
"""
"""What `train.py` is in a snippet that is a command."""


def snippets(rule: Rule) -> tuple[str, str]:
    """The bad one and the good one."""
    _, _, both = rule.explanation.partition("\nBad:\n")
    bad, _, good = both.partition("\nGood:\n")
    return textwrap.dedent(bad).strip(), textwrap.dedent(good).strip()


def recorded(snippet: str, folder: Path, torch: Any = torch, rule: Rule | None = None) -> Trace:
    """What a command, or a program, leaves behind."""
    if snippet.startswith("gradscope "):
        (folder / "train.py").write_text(TRAINING, encoding="utf-8")
        command = [sys.executable, "-m", *snippet.split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        return load(folder / "trace.json")
    pytorch = torch.__name__ == "torch"
    options = {"on": "torch", "level": "values"} if pytorch else {"level": "full"}
    if rule is not None and rule.id in AT_ENGINE:
        options["level"] = "engine"
    script = folder / f"snippet_{len(list(folder.iterdir()))}.py"
    script.write_text(snippet, encoding="utf-8")  # rules read lines, too
    recording = gradscope.record(**options)
    try:
        with warnings.catch_warnings(), recording:
            warnings.simplefilter("always")
            exec(compile(snippet, str(script), "exec"), {"torch": torch, "__name__": "snippet"})
    except (RuntimeError, TypeError):
        pass  # as the rule says
    return recording.trace()


def words(found: Finding) -> tuple[object, ...]:
    """All of it but ids of rows, which are in words where something has no name."""
    texts = (AN_ID.sub("", text) for text in (found.message, found.why, found.fix))
    return found.rule, found.severity, *texts, found.site, found.certainty, found.id


@EVERY_RULE
def test_a_rule_finds_its_bad_snippet_and_no_other_rule_does(rule: Rule, tmp_path: Path) -> None:
    bad, _ = snippets(rule)

    trace = recorded(bad, tmp_path, rule=rule)
    findings = inspect(trace).findings

    assert rule.summary.endswith(".")
    assert {found.rule for found in findings} == {rule.id}
    # Ids are only names: with others, the same is found, in the same words and order.
    with_other_ids = inspect(renumbered(trace, seed=3)).findings
    assert [*map(words, with_other_ids)] == [*map(words, findings)]


@EVERY_RULE
def test_nothing_is_found_in_the_good_snippet_of_a_rule(rule: Rule, tmp_path: Path) -> None:
    _, good = snippets(rule)

    report = inspect(recorded(good, tmp_path, rule=rule))

    assert [found.message for found in report.findings] == []
    assert report.summary.ops > 0


@pytest.mark.torch
@EVERY_RULE
def test_on_pytorch_the_same_is_found_and_not_found(rule: Rule, tmp_path: Path) -> None:
    import torch as pytorch

    bad, good = snippets(rule)
    if not bad.startswith("gradscope "):
        found = inspect(recorded(bad, tmp_path, pytorch, rule)).findings
        assert {each.rule for each in found if each.severity > Severity.NOTE} <= {rule.id}
        assert rule.id in {each.rule for each in found}
        left = inspect(recorded(good, tmp_path, pytorch, rule)).findings
        assert [each.message for each in left if each.severity > Severity.NOTE] == []
