"""A parameter is renormalized inside forward, in place, while the graph still needs it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Arc(nn.Module):
    def __init__(self, d, c):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(c, d))

    def forward(self, x):
        return F.linear(x, self.weight)


torch.manual_seed(0)
body, arc = nn.Linear(6, 10), Arc(10, 4)
opt = torch.optim.SGD([*body.parameters(), *arc.parameters()], lr=0.1)
for it in range(3):
    x = torch.randn(9, 6)
    logits = arc(body(x))
    with torch.no_grad():
        arc.weight.copy_(F.normalize(arc.weight, dim=1))  # BUG written-in-place
        # FIX pass
    loss = F.cross_entropy(logits, x[:, :4].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
