"""Messages, help and pages are free of words that docs/developing/words.md rules out."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gradscope.analysis.rules import all_rules

HOUSE = Path(__file__).parents[2]
sys.path.insert(0, str(HOUSE / "tools" / "docs"))

import messages  # noqa: E402

RULED_OUT = re.compile(
    r"\b(?:so many|as ever|whom|at hand|foremost|befell|befall|is told|are told|was told|were told|"
    r"stolen|lets? go of|came there|came to it|no backward came|it were|nobody|NaN born|"
    r"born out of|"
    r"in place \(\d|and what else|sure (?:certain|inferred))\b",
    re.IGNORECASE,
)
PAGES = [
    path
    for path in (HOUSE / "README.md", HOUSE / "CONTRIBUTING.md", *(HOUSE / "docs").rglob("*.md"))
    if path.name != "words.md"
]
NAMES = re.compile(r"STOLEN|`[^`]*`")
"""Names of code, and quotations of it, are no words."""


def found_in(text: str) -> list[str]:
    return RULED_OUT.findall(NAMES.sub("", text))


def test_no_message_has_words_that_are_ruled_out() -> None:
    listed = [*messages.messages()]

    assert len(listed) > 2_000
    assert {f"{each.file}:{each.line}": each.text for each in listed if found_in(each.text)} == {}


def test_no_rule_is_explained_in_words_that_are_ruled_out() -> None:
    assert {rule.slug: found for rule in all_rules() if (found := found_in(rule.explanation))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_no_page_has_words_that_are_ruled_out(page: Path) -> None:
    assert found_in(page.read_text(encoding="utf-8")) == []


def test_the_list_of_messages_has_what_users_see() -> None:
    texts = {each.text for each in messages.messages()}

    assert "inspect needs a trace: gradscope inspect TRACE" in texts
    assert any(text.startswith("{…} rules checked") or "checked, no" in text for text in texts)
