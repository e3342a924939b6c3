"""An answer on one screen: what does not fit is counted, and how to see it is said."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.answers import SCREEN, answer_json, answer_lines
from gradscope.scene.answers.answer import Answer, Topic
from gradscope.trace.schema import HookKind

NOTE = "not recorded at level engine: norms; use --level values"
LONG = tuple(f"line {number} of many " + "word " * 100 for number in range(50))
SECTIONS = (Topic("first", LONG), *(Topic(f"part {n}", ("a", "b")) for n in range(20)))
ANSWER = Answer("It is so.", (("fact", "yes"),), SECTIONS, (NOTE,))


def lines(rows: int | None) -> list[str]:
    return [each.plain for each in answer_lines(ANSWER, 60, UNICODE, rows)]


def test_what_does_not_fit_on_one_screen_is_counted_with_how_to_see_it() -> None:
    shown = lines(None)

    assert len(shown) <= SCREEN
    assert shown[0] == "It is so."
    assert any(re.match(r"  and 4\d more; --rows N or --all for more", line) for line in shown)
    assert any(line.startswith("more with --all: part") for line in shown)
    assert shown[-1:] == ["not recorded at level engine: norms; use --level values"]


def test_so_many_rows_of_each_section_are_shown_when_asked_and_with_0_all_whole() -> None:
    assert "  and 49 more; --rows N or --all for more" in lines(1)
    assert all(f"part {number}" in lines(0) for number in range(20))
    assert " ".join(lines(0)).count("word") == 50 * 100


@dataclass
class Data:
    kind: HookKind
    site: Site
    norm: float
    numbers: tuple[int, ...]


def test_an_answer_as_json_holds_all_words_and_the_data_behind_them() -> None:
    data = Data(HookKind.POST_ACCUMULATE, Site("a.py:3", "x = 1", "a.py", 3), math.nan, (1, 2))
    answer = Answer("It is so.", (("fact", "\u202eyes"),), SECTIONS, (NOTE,), data)

    document = json.loads(answer_json(answer, "grad-of", "w"))

    assert document["question"] == "grad-of"
    assert len(document["sections"][0]["lines"]) == 50
    assert document["notes"] == [NOTE]
    assert document["data"] == {
        "kind": "post_accumulate",
        "site": {"place": "a.py:3", "text": "x = 1", "file": "a.py", "line": 3},
        "norm": None,
        "numbers": [1, 2],
    }
    assert "\u202e" not in answer_json(answer, "grad-of", "w")
