"""A model that is asked for its loss, and never called: its heads are in a plain dict."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tasks(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(9, 24), nn.ELU())
        self.heads = {name: nn.Linear(24, n) for name, n in sizes.items()}  # BUG unregistered
        # FIX self.heads = nn.ModuleDict({name: nn.Linear(24, n) for name, n in sizes.items()})

    def loss(self, batch):
        h = self.trunk(batch["x"])
        return sum(F.cross_entropy(self.heads[k](h), batch[k]) for k in ("color", "shape"))


torch.manual_seed(0)
model = Tasks({"color": 4, "shape": 3})
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(32, 9)
    batch = {"x": x, "color": x[:, :4].argmax(1), "shape": x[:, 4:7].argmax(1)}
    optimizer.zero_grad()
    loss = model.loss(batch)
    loss.backward()
    optimizer.step()
