"""Three losses are put into one tensor, which begins a new graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(3))

    def forward(self, x):
        h = torch.relu(self.body(x))
        return [head(h) for head in self.heads]


model = Multi()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(30, 6)
goals = x[:, :3].split(1, dim=1)
for epoch in range(4):
    losses = [F.mse_loss(out, goal) for out, goal in zip(model(x), goals)]
    loss = torch.tensor([each.item() for each in losses], requires_grad=True).sum()  # BUG graph-cut
    # FIX loss = torch.stack(losses).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
