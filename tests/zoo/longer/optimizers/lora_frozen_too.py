"""LoRA: adapters are put around the linears of a pretrained net."""
import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: float = 8.0):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.randn(r, base.in_features) * 0.02)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.A.t() @ self.B.t()) * self.scaling


def inject(model):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRALinear(child))
        else:
            inject(child)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Linear(24, 24), nn.GELU())
head = nn.Linear(24, 4)
# ADD for p in net.parameters():
# ADD     p.requires_grad = False
inject(net)
for p in net.parameters():
    p.requires_grad = False  # BUG frozen
    # FIX pass
adapters = [p for n, p in net.named_parameters() if n.endswith((".A", ".B"))]
optimizer = torch.optim.AdamW(
    [{"params": adapters, "lr": 1e-3}, {"params": head.parameters(), "lr": 1e-2}]
)
for _ in range(4):
    x = torch.randn(32, 10)
    loss = nn.functional.cross_entropy(head(net(x)), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
