"""Several heads whose losses are gathered in a dictionary."""
import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(7, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"age": nn.Linear(32, 1), "sex": nn.Linear(32, 2), "size": nn.Linear(32, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}  # ALSO


def losses_of(out, age, sex, size):
    losses = {
        "age": nn.functional.l1_loss(out["age"].squeeze(1), age),
        "sex": nn.functional.cross_entropy(out["sex"], sex),
    }
    losses["size"] = nn.functional.mse_loss(out["size"].squeeze(1), size)
    return losses


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(50, 7)
age, sex, size = x.sum(1), (x[:, 0] > 0).long(), x[:, 1] * 3
for step in range(6):
    losses = losses_of(model(x), age, sex, size)
    loss = sum(v for k, v in losses.items() if k in ("age", "sex", "weight"))  # BUG unused
    # FIX loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, {k: v.item() for k, v in losses.items()})
