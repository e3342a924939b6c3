"""Questions that a reader brings to the page, each answered after at most three actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.report import inspect
from gradscope.trace.load_save import load
from gradscope.trace.schema import Module, Node, Saved
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import several_ranks
from tests.render.viewer.settled import settle
from tests.shared.chains import chain
from tests.shared.example_traces import nan_in_backward

pytestmark = pytest.mark.browser

Opens = Callable[..., Any]
GALLERY = Path(__file__).parents[4] / "docs" / "gallery"
MOST_ACTIONS = 3
ONE_PIXEL = 0.002


@dataclass
class Reader:
    """A person at a page. Each click, key or typed word is one action."""

    page: Any
    actions: int = 0

    def _acts(self) -> None:
        self.actions += 1
        settle(self.page)
        assert self.actions <= MOST_ACTIONS

    def clicks(self, selector: str) -> None:
        self.page.click(selector)
        self._acts()

    def clicks_at(self, selector: str, share: float) -> None:
        """Click in the middle of an element's height, at a share of the axis of time."""
        axis = self.page.evaluate(
            "(({left, right}) => [left, right])(window.gradscope.timeline.axis)"
        )
        box = self.page.locator(selector).bounding_box()
        x = axis[0] + share * (axis[1] - axis[0])
        self.page.locator(selector).click(position={"x": x, "y": box["height"] * 0.6})
        self._acts()

    def searches(self, words: str) -> None:
        self.page.fill("#search", words)
        self._acts()
        self.page.press("#search", "Enter")
        self._acts()

    def reads(self, selector: str) -> str:
        settle(self.page)
        return " ".join(str(self.page.inner_text(selector)).split())


def the_gpt() -> Trace:
    return load(GALLERY / "gpt.json.gz")


def test_what_is_slowest_and_why(opened: Opens) -> None:
    trace = the_gpt()
    reader = Reader(opened(trace))
    worst = inspect(trace).lines[0]

    assert worst.site.place in reader.reads("#summary-panel")
    reader.clicks("#summary-panel >> text=all times")
    first = reader.reads("#slowest-panel li >> nth=0")
    assert first.startswith(worst.site.place)
    parts = {"operations": worst.ops_ns, "backward": worst.backward_ns}
    assert any(parts.values())
    assert {word for word in parts if word in first} == {word for word in parts if parts[word]}


def test_where_the_gradient_of_layer3_comes_from(opened: Opens) -> None:
    reader = Reader(opened(load(GALLERY / "resnet.json.gz")))

    reader.searches("layer3")
    said = reader.reads("#details")
    assert said.startswith("layer3")
    assert "Where its gradient comes from" in said
    assert "layer4" in said


def test_what_attention_saved(opened: Opens) -> None:
    trace = the_gpt()
    reader = Reader(opened(trace))
    nodes, saved = trace.table(Node), trace.table(Saved)
    names = nodes.texts("name")
    first = next(
        id for id, name in zip(nodes["id"].tolist(), names, strict=True) if "Attention" in name
    )
    bytes = int(np.sum(saved["bytes"][saved["node"] == first]))

    reader.searches("attn")
    said = reader.reads("#details")
    assert "Attention" in said.split(" · ")[0]
    assert f"saves {bytes / 1024:.3g} KiB" in said.replace(",", "").partition("at this event")[0]


def test_where_the_nan_was_born(opened: Opens) -> None:
    trace = nan_in_backward()
    reader = Reader(opened(trace))
    finding = inspect(trace).findings[0]

    assert finding.site.place in reader.reads("#summary-panel")
    assert reader.reads("#details h2") in finding.message
    assert reader.actions == 0


def test_what_runs_at_half_time(opened: Opens) -> None:
    reader = Reader(opened(the_gpt()))

    reader.clicks_at("#playhead", 0.5)
    named = reader.reads("#now")
    running = reader.page.evaluate(
        """() => { const app = window.gradscope, { runs, nodes } = app.model;
        return [...runs.get('begun_t').keys()].filter(run => runs.get('node')[run] >= 0
          && runs.get('begun_t')[run] <= app.t && app.t < runs.get('ended_t')[run])
          .map(run => app.model.title(runs.get('node')[run])); }"""
    )
    calls = reader.page.evaluate(
        """() => { const app = window.gradscope, { begin, end, length } = app.timeline.bars.calls;
        return [...Array(length).keys()].filter(call => begin[call] <= app.t && app.t < end[call])
          .map(call => app.timeline.title({ kind: 'calls' }, call)); }"""
    )
    share = reader.page.evaluate(
        """(app => (app.t - app.axis.least) / (app.axis.most - app.axis.least))(window.gradscope)"""
    )
    assert abs(share - 0.5) < ONE_PIXEL
    for name in [*running, *calls][-1:]:
        assert name.split("#")[0] in named


def test_what_differs_between_two_runs(opened: Opens) -> None:
    earlier = chain(Gelu=20_000, Mul=70_000)
    reader = Reader(opened(chain(Tanh=20_000, Mul=70_000), earlier=earlier))

    said = reader.reads("#compared-panel")
    assert "Gelu → Tanh" in said
    assert reader.actions == 0


def test_which_rank_waits(opened: Opens) -> None:
    reader = Reader(opened(several_ranks(late={(1, 2): 400_000})))

    assert "rank 0 waited 400 µs for rank 1" in reader.reads("#summary-panel")
    assert reader.actions == 0


def test_which_module_holds_memory_at_the_peak(opened: Opens) -> None:
    trace = the_gpt()
    reader = Reader(opened(trace))
    modules = {row.path for row in trace.rows(Module)}

    reader.clicks("#tab-memory")
    first = reader.page.locator("#memory-panel h2 + ul li >> nth=0").inner_text().split("\n")[0]
    assert first in modules or first == "outside of modules"
