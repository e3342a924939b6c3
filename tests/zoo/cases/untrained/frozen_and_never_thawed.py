"""Warm-up: the head alone for an epoch, then everything."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.body(x))


def set_frozen(module, frozen):
    for p in module.parameters():
        p.requires_grad_(False)  # BUG frozen
        # FIX p.requires_grad_(not frozen)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(32, 6)
y = x.norm(dim=1, keepdim=True)
for epoch in range(4):
    set_frozen(net.body, frozen=epoch == 0)  # ALSO
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    print("epoch", epoch, "loss", loss.item())
