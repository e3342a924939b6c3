"""What a line may become, and that it is understood then."""

from __future__ import annotations

import pytest

from gradscope.debug.commands import answer
from gradscope.debug.completion import completions
from gradscope.debug.walk import Walk
from tests.shared.example_traces import nan_in_backward, two_layers


@pytest.fixture(scope="module")
def walk() -> Walk:
    return Walk(two_layers())


@pytest.mark.parametrize(
    ("begun", "some"),
    [
        ("re", "reverse "),
        ("q", "quit "),
        ("break gr", "break grad "),
        ("c node Ad", "c node AddmmBackward0"),
        ("break module layers0.", "break module layers0.linear"),
        ("break grad layers1.", "break grad layers1.linear.bias"),
        ("goto e", "goto end"),
        ("goto line train.py:1", "goto line train.py:12"),
        ("why Rel", "why ReluBackward0"),
        ("help ", "help break"),
    ],
)
def test_a_line_is_completed_by_its_last_word(walk: Walk, begun: str, some: str) -> None:
    assert some in completions(walk, begun)


def test_what_is_offered_is_understood() -> None:
    walk = Walk(nan_in_backward())
    for begun in ("break node ", "break grad ", "goto #", "goto line ", "grad ", "tensor "):
        offered = completions(walk, begun)
        assert offered
        for text in offered:
            answer(walk, text)
    assert completions(walk, "delete ") == [f"delete {number}" for number in walk.stops]


def test_nothing_is_offered_where_nothing_is_known(walk: Walk) -> None:
    assert completions(walk, "break node Add x") == []
    assert completions(walk, "nonsense ") == []
    assert completions(walk, "step ") == []
