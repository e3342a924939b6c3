"""Two traces side by side in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from hypothesis import given
from rich.cells import cell_len

from gradscope.analysis.likeness import compare
from gradscope.render.terminal.cells import PLAIN, UNICODE, Charset
from gradscope.render.views.differences import differences_lines
from gradscope.scene.differences import differences_scene, told_apart
from gradscope.trace.schema import Act, GraphTask, Node, StepAct
from gradscope.trace.trace import Trace
from tests.render.hostile import named, names
from tests.render.views.test_timeline import text_of
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers


def shown(one: Trace, other: Trace, width: int = 100, charset: Charset = UNICODE) -> str:
    scene = differences_scene(compare(one, other), (one, other), ("a.json", "b.json"))
    return text_of(differences_lines(scene, width, charset))


def test_a_comparison_is_as_it_was_reviewed(golden: Callable[[str, str], None]) -> None:
    golden("diff.txt", shown(two_layers(2), two_layers(3, layers=3)))
    golden("diff_narrow.txt", shown(mean_of_squares(), nan_in_backward(), 60, PLAIN))
    golden("diff_alike.txt", shown(two_layers(2), two_layers(2)))


def drawn(*states: int) -> Trace:
    acts = [Act(id=place, kind="step", t=place) for place in range(len(states))]
    facts = [StepAct(id=place, random=state) for place, state in enumerate(states)]
    return trace_of(Node(id=1, name="MulBackward0"), GraphTask(id=0, roots=(1,)), *acts, *facts)


def test_it_is_said_from_which_step_on_other_random_numbers_are_drawn() -> None:
    assert "is the same after 2 steps of optimizers" in shown(drawn(5, 6), drawn(5, 6))
    assert "the same after 1 step of optimizers, and" in shown(drawn(5, 6), drawn(5, 7))
    assert "random numbers" not in shown(drawn(5), drawn())


@given(names)
def test_no_name_breaks_a_line_or_leaves_its_width(name: str) -> None:
    text = shown(named(name), two_layers(), 60, PLAIN)

    assert text.isascii()
    assert max(cell_len(line) for line in text.split("\n")) <= 60


def test_traces_in_one_folder_are_told_apart_by_their_names() -> None:
    assert told_apart((PurePath("/a/b.json"), PurePath("/a/c.json"))) == ("b.json", "c.json")
    assert told_apart((PurePath("a/t.json"), PurePath("b/t.json"))) == ("a/t.json", "b/t.json")
