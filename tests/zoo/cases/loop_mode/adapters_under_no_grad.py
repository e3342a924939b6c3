"""Adapters inside a pretrained trunk."""
import torch
from torch import nn

torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.adapter = nn.Sequential(nn.Linear(dim, 4), nn.GELU(), nn.Linear(4, dim))

    def forward(self, x):
        h = torch.tanh(self.dense(x))
        return h + self.adapter(h)


class Trunk(nn.Module):
    def __init__(self, dim=16, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))

    @torch.no_grad()  # BUG graph-cut
    # FIX
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


trunk, head = Trunk(), nn.Linear(16, 3)
for name, p in trunk.named_parameters():
    p.requires_grad = "adapter" in name
params = [p for p in [*trunk.parameters(), *head.parameters()] if p.requires_grad]
optimizer = torch.optim.AdamW(params, lr=1e-2)
x, y = torch.randn(48, 16), torch.randint(0, 3, (48,))
for epoch in range(4):
    loss = nn.functional.cross_entropy(head(trunk(x)), y)  # ALSO
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
