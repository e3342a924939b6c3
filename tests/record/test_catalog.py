"""What is written out in full."""

from __future__ import annotations

import gradscope.runtime as torch
from gradscope.analysis.sites import site_of
from gradscope.record.recorder import record
from gradscope.trace.schema import Node
from gradscope.trace.spec import check


def test_the_new_history_that_a_write_through_a_view_makes_has_the_line_of_the_write() -> None:
    leaf = torch.ones(4, requires_grad=True)
    with record() as recording:
        made = leaf.clone()
        made[1:].mul_(3)
        made.sum().backward()

    trace = recording.trace()
    lines = {
        node.name: site_of(trace, node.stack).text
        for node in trace.rows(Node)
        if node.name in {"CopySlices", "AsStridedBackward0"}
    }
    assert lines == dict.fromkeys(("CopySlices", "AsStridedBackward0"), "made[1:].mul_(3)")
    assert check(trace) == []
