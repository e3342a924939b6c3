"""Of moving averages it is told how much of them an update leaves, as far as the file says it."""

from __future__ import annotations

import ast

from gradscope.analysis.source.averages import averages

SCRIPT = """\
DECAY = 0.99
class Average:
    def __init__(self, model, decay=0.75):
        self.decay = decay
    def update(self, model):
        for s, p in zip(self.slow, model.parameters()):
            s.mul_(self.decay).add_(p.data, alpha=1 - self.decay)
            s.data = s.data * (1 - DECAY) + DECAY * p.data
            s.lerp_(p, 0.25)
            s.copy_((1.0 - self.decay) * p + self.decay * s)
            s.mul_(1 - DECAY).add_(DECAY * p)
        self.mean = torch.lerp(self.mean, x.mean(0), 0.25)
def others(target, net, g, tau, lr):
    target.mul_(1 - tau).add_(net, alpha=tau)
    g.mul_(0.9).add_(net.grad)
    rest = 0.5 * g + 0.25 * net
    lr = min(lr, 0.5)
    g.mul_(lr).add_(net, alpha=1 - lr)
"""


def test_averages_are_told_with_what_they_keep() -> None:
    found = list(averages(ast.parse(SCRIPT)))

    assert [(each.line, each.name, each.new, round(each.kept, 4)) for each in found] == [
        (7, "s", "p", 0.75),
        (8, "s", "p", 0.01),
        (9, "s", "p", 0.75),
        (10, "s", "p", 0.75),
        (11, "s", "p", 0.01),
        (12, "self.mean", "x.mean(0)", 0.75),
    ]
    assert [each.in_place for each in found] == [True, True, True, True, True, False]
    assert found[1].swapped == "s.data = s.data * DECAY + (1 - DECAY) * p.data"
    assert found[2].swapped == "s.lerp_(p, 1 - 0.25)"
