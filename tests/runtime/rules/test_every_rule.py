"""The forty rules of the engine (docs/engine/index.md) have tests, and are seen in traces."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "engine" / "index.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("\n## Forty rules")[2]
RULES = [int(number) for number in re.findall(r"^(\d+)\. ", SECTION, re.MULTILINE)]


def programs_of_rules() -> dict[int, list[ast.FunctionDef]]:
    found: dict[int, list[ast.FunctionDef]] = defaultdict(list)
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            for mark in function.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.rule":
                    found[ast.literal_eval(mark.args[0])].append(function)
    return found


def looks_at_a_trace(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(n, ast.Call) and ast.unparse(n.func) == "seen" for n in ast.walk(function)
    )


def test_every_rule_has_a_test() -> None:
    found = programs_of_rules()

    assert len(RULES) == 40
    assert sorted(found) == RULES


def test_every_rule_is_seen_in_a_trace() -> None:
    unseen = [
        n for n, tests in programs_of_rules().items() if not any(map(looks_at_a_trace, tests))
    ]

    assert unseen == []


def needs_pytorch(function: ast.FunctionDef) -> bool:
    marks = {ast.unparse(mark) for mark in function.decorator_list}
    return "pytest.mark.torch" in marks or "torch" not in [a.arg for a in function.args.args]


def test_every_rule_is_tried_where_pytorch_is_not_installed() -> None:
    """Its words and numbers stand in the test; the fixture `torch` gives it one engine or other."""
    skipped = [n for n, tests in programs_of_rules().items() if all(map(needs_pytorch, tests))]

    assert skipped == []
