"""Ranks that did the same, and the line that says so."""

from __future__ import annotations

from gradscope.analysis.ranks.alike import ranks_alike
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.report import inspect
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.report import report_lines
from gradscope.scene.report import headline
from gradscope.trace.schema import NONE, Node, Phase, Span
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import several_ranks
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import two_layers


def rank(number: int, *nodes: str, exit: str = "ok") -> Trace:
    span = Span(0, "barrier", Phase.COLLECTIVE, NONE, 0, NONE, 10, 20)
    rows = [Node(at, name) for at, name in enumerate(nodes)]
    return trace_of(span, *rows, meta={"rank": number, "host": "one", "exit": exit})


def test_ranks_with_the_same_nodes_counts_and_ending_are_one_group() -> None:
    whole = merged(
        [
            rank(0, "A", "B"), rank(1, "B", "A"), rank(2, "A", "C"),
            rank(3, "A", "B", exit="ValueError: no"),
        ]
    )  # fmt: skip

    assert [group.ranks for group in ranks_alike(whole)] == [(0, 1), (2,), (3,)]
    assert headline(inspect(whole))[-1] == (
        "ranks 0, 1 alike: 0 steps, 0 backwards, 2 nodes, 1 collective; "
        "rank 2: 0 steps, 0 backwards, 2 nodes, 1 collective; "
        "rank 3: 0 steps, 0 backwards, 2 nodes, 1 collective, ended with ValueError"
    )


def test_many_ranks_are_one_line() -> None:
    line = headline(inspect(several_ranks(64, alike=True)))[-1]
    assert line == "ranks 0 to 63 alike in nodes and collectives"
    assert headline(inspect(several_ranks(9)))[-1].endswith("; and 5 more ranks")
    assert ranks_alike(two_layers()) == ()


def test_the_report_names_the_command_that_shows_how_gradients_were_combined() -> None:
    def shown(trace: Trace) -> str:
        return "\n".join(text.plain for text in report_lines(inspect(trace), 100, UNICODE, 0))

    assert "gradscope audit TRACES" in shown(several_ranks(2))
    assert "gradscope audit" not in shown(merged([rank(0, "A"), rank(1, "A")]))
    assert "gradscope audit" not in shown(two_layers())
