"""The debugger as somebody meets it: commands in, screens out."""

from __future__ import annotations

from io import StringIO

import pytest

import gradscope.runtime as torch
from gradscope.debug.commands import COMMANDS
from gradscope.debug.lines import converse
from gradscope.debug.walk import Walk
from gradscope.record.recorder import record
from gradscope.render.terminal.terminal import Terminal
from gradscope.trace.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A gradient that is Inf: the root of zero."""
    with record(level="values") as recording:
        weight = torch.zeros(2, requires_grad=True)
        (weight * weight).sum().sqrt().backward()
    return recording.trace()


def told(trace: Trace, *commands: str, lines: int = 22) -> str:
    file = StringIO()
    converse(Walk(trace), commands, Terminal(file, plain=True, width=80), lines)
    return file.getvalue()


def test_a_session_that_finds_where_an_inf_was_born(trace: Trace) -> None:
    screens = told(trace, "break inf", "continue", "values", "source", "reverse", "findings")

    assert "breakpoint 1: inf: 1 moment, 0 of them before the current one" in screens
    assert "SqrtBackward0 ends\n" in screens
    assert "stopped at  breakpoint 1: inf" in screens
    assert "posinf 1" in screens
    assert "test_lines.py:" in screens
    assert "test_lines.py:23 in trace" in screens
    assert "stopped at  the beginning of the trace" in screens
    assert "GS201 non-finite-birth" in screens


def test_an_empty_line_does_the_last_move_again(trace: Trace) -> None:
    assert told(trace, "next", "", "breaks", "") == told(trace, "next", "next", "breaks", "next")


def test_queue_counts_and_buffers_are_in_view(trace: Trace) -> None:
    screens = told(trace, "continue buffer_added", "continue push AccumulateGrad")

    assert "keeps the first gradient" not in screens
    assert "1 gradient added (1 in place)" in screens or "1 gradient added" in screens
    assert "queue 0, next node first\n  AccumulateGrad (weight) (runs before all" in screens


def test_what_is_wrong_is_said_and_the_next_is_answered(trace: Trace) -> None:
    screens = told(trace, "brek nan", "goto", "step x", "goto 99999", "break nan if x", "state",
                    "goto -5", "goto #", "break line test_lines.py", "help nonsense")  # fmt: skip

    for complaint in (
        "error: 'brek' is no command",
        "error: goto where?",
        "error: 'x' is not a number",
        "error: there is no moment 99,999",
        "error: cannot read the condition 'x'",
        "error: there is no moment -5",
        "error: goto needs # and the start",
        "error: a line is written FILE:NUMBER, as in test_lines.py:",
        "error: 'nonsense' is no command",
    ):
        assert complaint in screens
    assert "moment 0 of" in screens


def test_why_says_what_a_node_still_waits_for(trace: Trace) -> None:
    screens = told(trace, "next", "why SqrtBackward0", "why MulBackward0", lines=40)

    assert "ran 1st of" in screens
    assert "now              running, since moment" in screens
    assert "0 of 1 gradient arrived; missing from SumBackward0 (waiting)" in " ".join(
        screens.split()
    )


def test_commands_may_be_cut_short_where_it_is_clear(trace: Trace) -> None:
    assert told(trace, "cont node Sqrt*") == told(trace, "continue node Sqrt*")
    assert "'gra' is ambiguous: grad, grads" in told(trace, "gra")


@pytest.mark.parametrize("name", sorted({each.name for each in COMMANDS.values()}))
def test_every_command_fits_one_screen_and_80_columns(trace: Trace, name: str) -> None:
    wanted = {"goto": "end", "tensor": "weight", "op": "sqrt", "grad": "weight", "delete": "1"}
    argument = wanted.get(name, "")
    if name in ("node", "why", "saved"):
        argument = "SqrtBackward0"
    screens = told(trace, f"{name} {argument}".strip())
    lines = screens.splitlines()

    assert lines
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert screens.isascii()


def test_what_does_not_fit_is_said_and_how_to_see_it(trace: Trace) -> None:
    cut, whole = told(trace, "help"), told(trace, "all help")

    assert "more; all help for more" in cut
    assert "findings or f" not in cut
    assert "findings or f" in whole


def test_help_with_a_command_is_about_it(trace: Trace) -> None:
    screens = told(trace, "help goto")

    assert "goto or g WHERE: go to a moment" in screens
    assert "undo" not in screens


def test_quit_ends_it(trace: Trace) -> None:
    assert told(trace, "quit", "state") == ""


def test_why_answers_about_the_backward_at_hand() -> None:
    with record() as recording:
        weight = torch.ones(2, requires_grad=True)
        loss = (weight * 2).sum()
        for _ in range(2):
            loss.backward(retain_graph=True)
    screens = told(recording.trace(), "goto end", "reverse node AccumulateGrad", "why")

    assert "ran 3rd of 3 in backward 1" in screens.replace("\n", " ")
    assert "in other backwards\n  backward 0: ran 3rd of 3" in screens


def test_a_list_of_so_many_is_not_cut(trace: Trace) -> None:
    screens = told(trace, "goto 8", "list 8", lines=10)

    for moment in ("  0", "> 8", "  16"):
        assert f"\n  {moment.strip()}  " in screens


def test_op_is_the_call_at_hand(trace: Trace) -> None:
    screens = told(trace, "goto op sqrt", "op", "op sqrt")

    assert screens.count("sqrt (op ") == 2
