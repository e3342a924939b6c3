"""Which cuts are only for a look is read off the source."""

from __future__ import annotations

import ast

from gradscope.analysis.source.looked_at import LoggedCut, looked_at

KEPT = """\
import torch
seen, kept = [], {}
for x in data:
    h = body(x)
    seen.append(h.detach().clone())
    print(f"{h.std().item():.2f}", len(seen))
    copy = h.detach()
    kept["norm"] = copy.norm()
    writer.add_scalar("h", h.mean().detach())
print(torch.stack(seen).mean(), kept)

def step(x):
    out = head(x)
    return out.mean(), {"top": out.argmax(1)}

loss, told = step(x)
loss.backward()
print(told)
"""

USED = """\
import torch
seen = []
for x in data:
    h = body(x).detach()
    total = criterion(head(h), y)
    seen.append(body(x).detach())
    total.backward()
torch.stack(seen).mean().backward()

class Net:
    def forward(self, x):
        self.state = x.detach()
        return self.out(x.detach()) + self.state

def step(x):
    out = head(x)
    return out.detach(), out.std().item()

loss, told = step(x)
loss.backward()
memory.push(x.detach())
"""


def looks(source: str) -> list[LoggedCut]:
    return [look for _, look in looked_at([ast.parse(source)])]


def test_copies_in_logs_lists_and_metrics_are_only_looked_at() -> None:
    assert looks(KEPT) == [
        LoggedCut(5, "detach"),
        LoggedCut(6, "item"),
        LoggedCut(7, "detach"),
        LoggedCut(9, "detach"),
        LoggedCut(14, "argmax"),
    ]


def test_what_comes_into_a_loss_or_may_do_so_is_not() -> None:
    assert looks(USED) == [LoggedCut(17, "item")]
