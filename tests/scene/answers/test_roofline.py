"""What pieces cost against the limits of a machine."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.analysis.answers.roofline import Cost, Peaks, _inner, _taps, roofline
from gradscope.analysis.identity.sites import Site
from gradscope.record.recorder import record
from gradscope.render.terminal.cells import PLAIN, UNICODE
from gradscope.render.terminal.roof import roof_lines
from gradscope.scene.answers.roofline import costs, rate
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

PEAKS = Peaks(1e11, 1e10, "a processor", 1, "here")


@pytest.fixture(scope="module")
def trace() -> Trace:
    x, weight = torch.ones(64, 32), torch.ones(16, 32, requires_grad=True)
    bias = torch.ones(16, requires_grad=True)
    with record() as recording:
        for _ in range(3):
            torch.nn.functional.linear(x, weight, bias).relu().sum().backward()
    recording.stop()
    return recording.trace()


def of(name: str, found: Any) -> Cost:
    return next(cost for cost in found.costs if cost.name == name)


def test_a_product_is_counted_by_its_shapes(trace: Trace) -> None:
    found = roofline(trace, PEAKS)
    product, relu, back = (of(name, found) for name in ("addmm", "relu", "AddmmBackward0"))

    assert (product.count, product.flops) == (3, 3 * 2 * 64 * 16 * 32)
    assert product.bytes == 3 * 4 * (16 + 64 * 32 + 32 * 16 + 64 * 16)
    assert (relu.flops, relu.bytes) == (3 * 64 * 16, 3 * 4 * 2 * 64 * 16)
    assert back.flops == product.flops  # the input needs no gradient
    assert of("t", found).bytes == 0
    assert "test_roofline.py:" in product.site.place
    assert of("SumBackward0", found).count == 3


def test_a_piece_is_bound_by_what_takes_it_longer() -> None:
    product = Cost("mm", Site("train.py:1"), 1, 100, 100, 10, 1000)
    copied = Cost("add", Site("train.py:2"), 1, 100, 100, 1000, 10)

    assert not product.is_bound_by_memory(PEAKS)
    assert product.limit_ns(PEAKS) == pytest.approx(10)
    assert copied.is_bound_by_memory(PEAKS)
    assert copied.limit_ns(PEAKS) == pytest.approx(100)


def test_the_answer_says_what_was_measured_where(trace: Trace) -> None:
    said = costs(trace, PEAKS)
    facts = dict(said.facts)

    assert facts["machine"] == "a processor, 1 thread; measured now on here"
    assert facts["ridge point"] == "10.0 flop/B"
    assert any("addmm at " in line for line in said.sections[0].lines)
    assert any("the limits are those of this machine, here" in note for note in said.notes)
    assert rate(9.85e10, "flop") == "98.5 Gflop/s"


@pytest.mark.parametrize("charset", [UNICODE, PLAIN])
def test_the_roof_is_drawn_with_a_letter_for_each_piece(trace: Trace, charset: Any) -> None:
    lines = list(roof_lines(roofline(trace, PEAKS), 100, charset))
    drawn = "".join(line[15:] for line in lines[:-1])

    assert {len(line) <= 100 for line in lines} == {True}
    assert ("╱" in drawn) is (not charset.plain)
    assert set("abcdefgh") & set(drawn)
    assert lines[-1].strip().endswith("flop/B")
    if charset.plain:
        assert "".join(lines).isascii()


def test_without_times_there_is_nothing_to_draw() -> None:
    empty = roofline(trace_of(), PEAKS)

    assert list(roof_lines(empty, 100, UNICODE)) == []
    assert costs(trace_of(), PEAKS).title == "No times of calls or nodes were recorded."


def test_of_a_product_whose_other_factor_was_not_recorded_the_shapes_tell() -> None:
    assert _inner([(64, 784), (784, 256)], (64, 256)) == 784
    assert _inner([(784, 256)], (64, 256)) == 784
    assert _inner([(64, 784)], (64, 256)) == 784
    assert _inner([(64, 64)], (64, 64)) == 0
    assert _inner([], (64, 64)) == 0
    assert _taps([(8, 3, 32, 32), (8, 3, 5, 5), (8,)], (8, 8, 28, 28)) == 75
    assert _taps([(8,)], (8, 8, 28, 28)) == 0
