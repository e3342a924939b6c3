"""What saved tensors keep: the peak by line and module, by backward, what is not released."""

from __future__ import annotations

import re

from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.memory_use import memory
from tests.scene.answers.a_training import BOTH, a_training

PROGRAM = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(64, 256, bias=False)
    def forward(self, x):
        return torch.sigmoid(self.body(x))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
for step in range(4):
    loss = net(torch.ones(8, 64)).sum()
    optimizer.zero_grad()
    loss.backward(retain_graph=step == 3)
    optimizer.step()
    kept.append(loss)
"""


def told(answer: Answer) -> dict[str, list[str]]:
    return {
        section.title: [re.sub(r"[^\s(]*/(?=train\.py)", "", line) for line in section.lines]
        for section in answer.sections
    }


@BOTH
def test_the_peak_is_told_by_line_and_module_and_what_no_backward_let_go(engine: str) -> None:
    answer = memory(a_training(engine, program=PROGRAM))
    sections = told(answer)

    assert answer.title.startswith("Saved tensors held at most 10.0 KiB at once: at ")
    (line,) = sections["held at the peak, by line"]
    assert line.startswith("10.0 KiB (100%) train.py:6: return torch.sigmoid(self.body(x)); self")
    assert sections["held at the peak, by module"][-1].startswith("2.00 KiB (20%) body; self")
    assert sections["by backward"] == [
        "backwards 0 to 2 at train.py:13: 10.0 KiB before, 0 bytes after",
        "backward 3 at train.py:13: 10.0 KiB before, 10.0 KiB after",
    ]
    assert sections["released in backward 0, largest first"] == [
        "8.00 KiB by SigmoidBackward0#1 (train.py:6)",
        "2.00 KiB by MmBackward0#1 (train.py:6)",
    ]
    assert sections["released by no backward"][0].startswith("10.0 KiB (100%) train.py:6")
    assert sections["names that held graphs of earlier steps"] == [
        "the list `kept`: 3 tensors with graphs of 3 steps, stored at train.py:15; --who-holds kept"
    ]


@BOTH
def test_at_level_graph_it_is_said_that_nothing_saved_was_recorded(engine: str) -> None:
    answer = memory(a_training(engine, "graph", PROGRAM))

    assert answer.title == "No saved tensor was recorded."
    assert answer.notes[0].endswith("use --level engine")
