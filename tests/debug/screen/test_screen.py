"""The debugger on a whole screen: what is seen, what keys and commands do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rich.color import ColorType

from gradscope.analysis.report import inspect
from gradscope.debug.commands import COMMANDS, answer
from gradscope.debug.screen.keys import BY_KEY
from gradscope.debug.screen.panels import MOST, queue
from gradscope.debug.walk import Walk
from gradscope.scene.moments import MomentWords
from gradscope.trace.schema import NONE, Node
from gradscope.trace.trace import Trace
from tests.debug.screen.driven import LARGE, SMALL, driven, seen_at, typed  # first: may skip all
from tests.shared.example_traces import Program, nan_in_backward, shared_weight, two_layers

NODES = (">",) * 2


@pytest.fixture(scope="module")
def trace() -> Trace:
    return nan_in_backward()


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "120x40"])
def test_a_moment_on_one_screen(
    trace: Trace, size: tuple[int, int], golden: Callable[[str, str], None]
) -> None:
    seen = driven(trace, *NODES, size=size)

    assert len(seen.lines) == size[1]
    assert max(strip.cell_length for strip in seen.strips) == size[0]
    golden(f"screen_{size[0]}x{size[1]}.txt", seen.text)


def test_without_colour_the_same_is_said(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = driven(trace, *NODES)
    monkeypatch.setenv("NO_COLOR", "1")
    seen = driven(trace, *NODES)

    assert seen.text == coloured.text
    styles = [segment.style for strip in seen.strips for segment in strip if segment.style]
    colours = [each for style in styles for each in (style.color, style.bgcolor) if each]
    assert all(each.type is ColorType.DEFAULT for each in colours)
    assert any(style.reverse for style in styles)  # the line at hand


def test_moves_are_those_of_the_commands(trace: Trace) -> None:
    moves = {key: does for key, does in BY_KEY.items() if isinstance(does, str)}
    walk, keys, expected = Walk(trace), [*moves, *moves], []
    for key in keys:
        answer(walk, moves[key])
        expected.append(walk.moment)
    found: list[int] = []
    steps: list[Any] = []
    for key in keys:
        steps += [key, lambda app: found.append(app.walk.moment)]
    driven(trace, *steps)

    assert len(moves) >= 11
    assert found == expected


def test_every_other_key_is_answered_and_loses_nothing(trace: Trace) -> None:
    keys = [key for key, does in BY_KEY.items() if callable(does) and key != "q"]
    seen = seen_at(trace, (typed("break nan"), "escape"), *((">", key, "escape") for key in keys))

    assert {len(each.lines) for each in seen} == {SMALL[1]}
    assert [stop.text for stop in seen[-1].walk.stops.values()] == ["nan"]
    assert driven(trace, "q").app.is_running is False


def test_every_command_is_answered(trace: Trace) -> None:
    wanted = {"goto": "end", "tensor": "x", "op": "sqrt", "grad": "x", "delete": "1",
              "continue": "nan", "node": "SqrtBackward0", "saved": "SqrtBackward0"}  # fmt: skip
    said: dict[str, str] = {}

    def heard(name: str) -> Callable[[Any], None]:
        return lambda app: said.update({name: str(app.query_one("#said").render())})

    steps: list[Any] = [typed("break nan"), typed("next")]
    live = "gradscope.debug.live"  # where a program runs, if another test has loaded it
    commands = [each for each in COMMANDS.values() if not each.do.__module__.startswith(live)]
    names = list(dict.fromkeys(each.name for each in commands))
    for name in names:
        steps += [typed(f"{name} {wanted.get(name, '')}".strip()), heard(name)]
    driven(trace, *steps)

    assert [*said] == names
    assert not [name for name, text in said.items() if "error" in text]


def test_what_is_wrong_is_said_and_nothing_is_lost(trace: Trace) -> None:
    before, wrong, after = seen_at(
        trace, (*NODES, typed("break grad")), (typed("brek nan"),), (typed("step"),)
    )

    assert "error: 'brek' is no command" in wrong.text
    assert wrong.moment == before.moment == after.moment - 1
    assert len(after.walk.stops) == 1
    assert "error" not in after.lines[-2]


def test_an_answer_lies_over_the_panels_until_a_move_or_escape(trace: Trace) -> None:
    why, closed, again, moved = seen_at(trace, (*NODES, "y"), ("escape",), ("y",), (".",))

    for seen in (why, again):
        assert "answer (Esc closes)" in seen.text
        assert "ran 2nd of 4 in backward 0" in seen.text
    for seen in (closed, moved):
        assert "answer (Esc closes)" not in seen.text
    assert closed.moment == why.moment == moved.moment - 1


def test_an_empty_line_does_the_last_move_again(trace: Trace) -> None:
    again = driven(trace, typed("next"), typed(" "), typed(" "))

    assert again.walk.moment == driven(trace, *[">"] * 3).walk.moment


def test_what_is_typed_is_completed_and_comes_back(trace: Trace) -> None:
    stopped, before, offered = seen_at(
        trace, (":", *"bre", "tab", "space", *"nan", "enter", *"co", "tab", *"nan", "enter"),
        ("up", "up"), ("escape", ":", *"break s", "tab"),
    )  # fmt: skip

    assert "stopped at nan" in stopped.text
    assert before.lines[-1] == "(gradscope) break nan"
    assert "saved_released" in offered.lines[-2]


def test_the_node_at_hand_with_its_neighbours_and_the_way_along_them(trace: Trace) -> None:
    nodes = {trace.table(Node).row(id).name: id for id in trace.table(Node)["id"].tolist()}
    ways = (*NODES, "3"), ("down",), ("up",), ("up", "up"), ("f",), ("down", "+")
    at, down, up, top, followed, large = seen_at(trace, *ways, size=LARGE)

    assert at.node == nodes["SqrtBackward0"]
    assert "SumBackward0 for input 0, sent at moment" in at.text
    assert "output 0: PowBackward0, waiting" in at.text
    assert down.node == nodes["PowBackward0"]
    assert up.node == nodes["SqrtBackward0"]
    assert top.node == nodes["SumBackward0"]
    assert followed.node == nodes["SqrtBackward0"]
    assert "0 of 1 gradient arrived; missing from SqrtBackward0 (running)" in large.text
    assert {each.moment for each in (at, down, up, top, followed)} == {at.moment}


def test_siblings_lie_left_and_right() -> None:
    begin = (typed("goto node AddmmBackward0"), "escape", "3", "down")
    first, right, left = seen_at(two_layers(), begin, ("right",), ("left",))

    assert first.node == left.node != right.node


def test_choosing_an_event_a_finding_or_a_gradient_goes_there(trace: Trace) -> None:
    event, finding, key, grad = seen_at(
        trace, ("down", "down", "down", "enter"), ("5", "right", "down", "enter"),
        ("home", "x"), ("end", "5", "right", "down", "enter"),
    )  # fmt: skip
    found = trace.once(inspect).findings[0]

    assert event.moment == 3
    assert finding.moment == key.moment == Walk(trace).place(f"#{found.id}")
    assert f"finding 1 of 1: {found.rule}" in key.text
    assert grad.moment == Walk(trace).place("grad x")


def test_choosing_a_node_in_the_queue_shows_it() -> None:
    seen = driven(shared_weight(3), typed("continue push"), "escape", "2", *["down"] * 2, "enter")
    assert seen.node != NONE
    assert seen.focused == "queue"


def test_a_search_finds_parts_of_names_on_and_back(trace: Trace) -> None:
    first, second, again, none = seen_at(
        trace, ("/", *"qrt", "enter"), ("n",), ("N",), ("/", *"nothing", "enter")
    )

    assert "found qrt" in first.text
    assert first.moment == again.moment < second.moment
    assert none.moment == again.moment
    assert "error: there is no kind of breakpoint called 'nothing'" in none.text


def test_a_panel_alone_and_all_of_them(trace: Trace) -> None:
    alone, whole, other = seen_at(trace, ("4", "+"), ("0",), ("+", "1"))

    assert "4 source" in alone.text
    assert "1 events" not in alone.text
    assert "1 events" in whole.text
    assert "4 source" in other.text
    assert other.focused == "events"


def test_tab_goes_through_the_panels(trace: Trace) -> None:
    seen = seen_at(trace, *[("tab",)] * 5, ("shift+tab",))

    assert [each.focused for each in seen] == ["queue", "node", "source", "more", "events", "more"]


def test_the_looks_change_no_word(trace: Trace) -> None:
    looks = seen_at(trace, ("f",), ("t",), ("t",), ("t",))
    said = {each.lines[-2].strip() for each in looks[1:]}

    assert said == {"colours: light", "colours: dark", "colours: terminal"}
    assert len({"".join(each.lines[:-2]) for each in looks}) == 1


def test_playing_stops_at_a_key(trace: Trace) -> None:
    seen = driven(trace, "space", lambda app: app._plays(), ",", lambda app: None)

    assert seen.app._playing is None
    assert seen.walk.moment > 0


def test_only_what_is_seen_is_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = shared_weight(400)
    said: list[object] = []
    say = MomentWords.said
    monkeypatch.setattr(MomentWords, "said", lambda self, row: said.append(row) or say(self, row))
    seen = driven(trace, "end", "home", ">", ".")

    assert seen.walk.last > 5_000
    assert len(said) < 200


def test_of_a_long_queue_the_first_are_put_into_words() -> None:
    p = Program()
    leaves = tuple(p.leaf((1,), f"w{number}") for number in range(300))
    p.backward(p.call("StackBackward0", leaves, (300,)))
    state = Walk(p.trace()).next("node AccumulateGrad nth 10")
    assert state is not None
    backward = state.backwards[0]
    lines = [entry.text for entry in queue(state)]

    assert backward.first_queued(7) == backward.queued[:7]
    assert backward.first_buffers(7) == backward.buffers[:7]
    assert len(lines) < 3 * MOST
    assert f"  and {backward.queued_count - MOST} more" in lines
