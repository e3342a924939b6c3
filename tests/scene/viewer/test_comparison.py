"""A trace held against an earlier one: what the page is told."""

from __future__ import annotations

import numpy as np
import pytest

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.likeness.times import Verdict
from gradscope.errors import EmptyTraceError
from gradscope.scene.viewer.scene import Earlier, viewer_scene
from gradscope.scene.viewer.text_columns import TextColumn, ViewerScene
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.chains import chain, chain_in_steps
from tests.shared.example_traces import Program, two_layers

NAMES = ("old.json", "new.json")


def compared(earlier: Trace, later: Trace) -> ViewerScene:
    return viewer_scene(later, earlier=Earlier(earlier, NAMES))


def column(scene: ViewerScene, table: str, name: str) -> list[object]:
    found = scene.tables[table][name]
    if isinstance(found, TextColumn):
        return [scene.texts[place] for place in found.places]
    return found.tolist()


def facts(scene: ViewerScene) -> dict[str, object]:
    found = scene.facts["compared"]
    assert isinstance(found, dict)
    return found


def test_what_is_new_is_said_and_what_was_there_has_its_time() -> None:
    scene = compared(chain(Mul=7, Exp=5), chain(Mul=9, Log=3, Exp=50))

    status = dict(
        zip(column(scene, "nodes", "name"), column(scene, "compared", "status"), strict=True)
    )
    assert status == {"MulBackward0": 1, "LogBackward0": 2, "ExpBackward0": 1}
    ran = dict(zip(column(scene, "nodes", "name"), column(scene, "compared", "ran"), strict=True))
    assert ran == {"MulBackward0": 7, "LogBackward0": -1, "ExpBackward0": 5}
    assert facts(scene)["timed"]
    assert not column(scene, "gone", "title")


def test_what_is_gone_has_the_node_in_its_place() -> None:
    scene = compared(chain(Mul=7, Log=3, Sin=2, Exp=5), chain(Mul=7, Exp=5))

    names = column(scene, "nodes", "name")
    assert column(scene, "gone", "title") == ["LogBackward0", "SinBackward0"]
    assert [names[row] for row in column(scene, "gone", "node")] == ["ExpBackward0"] * 2  # type: ignore[index]
    assert column(scene, "gone", "ran") == [3, 2]
    assert column(scene, "gone", "place") == ["net.py:2", "net.py:3"]


def test_the_first_difference_leads_to_its_node() -> None:
    scene = compared(chain(Mul=7, Exp=5), chain(Mul=7, Log=3, Exp=5))

    (head, *_) = column(scene, "differences", "head")
    assert head == "structure: a node that only the second has"
    row = column(scene, "differences", "node")[0]
    assert column(scene, "nodes", "name")[row] == "LogBackward0"  # type: ignore[index]
    assert facts(scene)["verdict"] == "different in 1 of 5 aspects that were compared"


def test_one_sentence_sums_up_and_leaves_are_counted_apart_from_nodes() -> None:
    scene = compared(two_layers(steps=1, layers=1), two_layers(steps=2, layers=2))

    new = np.array(column(scene, "compared", "status")) == 2
    leaves = np.array(column(scene, "nodes", "is_leaf")) == 1
    assert facts(scene)["summary"] == (
        "old.json has 1 step with 1 backward, new.json 2 steps with 2 backwards; "
        f"new: {(new & ~leaves).sum()} nodes and {(new & leaves).sum()} leaves."
    )
    assert f"{(new & ~leaves).sum()} nodes that only the second has" in str(
        column(scene, "sections", "differs")
    )
    scene = compared(two_layers(layers=2), two_layers(layers=1))
    assert column(scene, "gone", "is_leaf").count(1) == 2
    alike = compared(chain(Mul=7), chain(Mul=9))
    assert facts(alike)["summary"] == "Both have 1 backward."
    assert column(alike, "changes", "text") == []


def sum_of(*sizes: int) -> Trace:
    """Leaves of these sizes, added up."""
    p = Program()
    leaves = tuple(p.leaf((size, 2), f"w{place}") for place, size in enumerate(sizes))
    p.backward(p.call("SumBackward0", leaves, (), p.line(3, "loss = add(w0, w1, w2, w3)")))
    return p.trace()


def test_leaves_of_another_size_are_named() -> None:
    scene = compared(sum_of(1, 2, 3, 8), sum_of(4, 5, 6, 7))
    assert column(scene, "changes", "text") == ["`w0` [1, 2] → [4, 2], and 3 more leaves with it"]
    rows = column(scene, "change_nodes", "node")
    assert [column(scene, "nodes", "leaf")[row] for row in rows] == ["w0", "w1", "w2", "w3"]  # type: ignore[index]


def test_a_replaced_node_is_marked_and_leads_to_both_of_its_nodes() -> None:
    scene = compared(chain(Mul=7, Log=3, Sin=2, Exp=5), chain(Mul=7, Tanh=1, Exp=5))

    assert column(scene, "changes", "text") == ["Log, Sin → Tanh, net.py:2"]
    assert column(scene, "changes", "marked") == [1]
    assert column(scene, "changes", "one") == ["x = x.log()"]
    sides = zip(
        column(scene, "change_nodes", "later"), column(scene, "change_nodes", "node"), strict=True
    )
    names = {side: column(scene, ("before_nodes", "nodes")[side], "name") for side in (0, 1)}  # type: ignore[index]
    assert [names[side][row] for side, row in sides] == [  # type: ignore[index]
        "LogBackward0", "SinBackward0", "TanhBackward0",
    ]  # fmt: skip
    assert column(scene, "gone", "node") == [1, 1]


def test_the_earlier_graph_is_in_the_page_and_its_nodes_are_linked() -> None:
    scene = compared(chain(Mul=7, Log=3, Exp=5), chain(Mul=7, Exp=5))

    assert column(scene, "before_nodes", "name") == ["MulBackward0", "LogBackward0", "ExpBackward0"]
    assert column(scene, "compared", "then") == [0, 2]
    assert column(scene, "gone", "row") == [1]
    assert set(column(scene, "before_runs", "begun")) == {-1}
    assert len(column(scene, "before_edges", "tail")) == 2


def test_times_are_medians_over_steps_with_a_verdict() -> None:
    """The first step is left out: it takes very long in both."""
    before = chain_in_steps(
        Mul=(900, 10, 11, 12, 13, 14), Exp=(900, 5, 9, 7, 6, 8), Log=(900, 80, 81, 82, 83, 84)
    )
    now = chain_in_steps(
        Mul=(900, 40, 41, 42, 43, 44), Exp=(900, 6, 9, 8, 7, 10), Log=(900, 2, 3, 4, 5, 6)
    )
    scene = compared(before, now)

    times = facts(scene)["times"]
    assert isinstance(times, dict)
    assert times["enough"]
    assert times["steps"] == [5, 5]
    rows = {name: column(scene, "compared", name)[3:6] for name in scene.tables["compared"]}
    assert rows["ran"] == [12, 7, 82]
    assert rows["now"] == [42, 8, 4]
    assert (rows["ran_low"], rows["ran_high"]) == ([11, 6, 81], [13, 8, 83])
    assert rows["verdict"] == [Verdict.SLOWER, Verdict.ALIKE, Verdict.FASTER]
    assert times["step"] == [[101, 101, 102], [53, 54, 55]]
    assert times["verdict"] == Verdict.FASTER


def test_of_few_steps_times_get_no_verdict() -> None:
    scene = compared(chain_in_steps(Mul=(9, 1, 1, 1, 1)), chain_in_steps(Mul=(900, 99, 99, 99, 99)))

    assert facts(scene)["times"] == {"enough": False, "steps": [4, 4]}
    assert column(scene, "compared", "ran") == [9, 1, 1, 1, 1]
    assert column(scene, "compared", "now") == [900, 99, 99, 99, 99]
    assert set(column(scene, "compared", "verdict")) == {Verdict.UNKNOWN}


def test_alike_traces_differ_in_nothing() -> None:
    scene = compared(chain(Mul=7, Exp=5), chain(Mul=7, Exp=5))

    assert column(scene, "compared", "status") == [1, 1]
    assert not column(scene, "differences", "head")
    assert set(column(scene, "sections", "differs")) == {"same"}
    assert facts(scene)["new_findings"] == facts(scene)["gone_findings"] == []


def test_a_page_of_one_trace_says_nothing_of_another() -> None:
    scene = viewer_scene(chain(Mul=7))

    assert "compared" not in scene.tables
    assert "compared" not in scene.facts


def test_without_a_backward_there_is_nothing_to_compare() -> None:
    with pytest.raises(EmptyTraceError, match="the first trace has no backward"):
        compared(trace_of(Node(0, "MulBackward0")), chain(Mul=7))
    assert viewer_scene(chain(Mul=7), Selection(backward=0), Earlier(chain(Mul=7), NAMES))
