"""Rules 10 to 16 and 36: how gradients arrive, are summed, kept and asked for."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.events import Accumulation
from gradscope.trace.run import Trace
from tests.runtime.autograd.both import leaf
from tests.runtime.rules.conftest import Seen


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.rule(10)
def test_grad_accumulates_in_place_unless_a_graph_is_made(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 1.0, 2.0)
    (x * 3).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert first.tolist() == [6.0, 6.0]

    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert (first.tolist(), x.grad.tolist()) == ([6.0, 6.0], [8.0, 10.0])

    def shows(trace: Trace) -> bool:
        how = [event.how for event in trace.events(schema.Accumulate)]
        return how == [Accumulation.STOLEN, Accumulation.IN_PLACE, Accumulation.OUT_OF_PLACE]

    seen(shows)
