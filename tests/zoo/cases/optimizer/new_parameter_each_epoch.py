"""Projected gradient descent; the projection makes a new parameter."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Mixture(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.means = nn.Parameter(torch.randn(k))
        self.weights = nn.Parameter(torch.full((k,), 1.0 / k))

    def forward(self, x):
        basis = torch.exp(-((x.unsqueeze(1) - self.means) ** 2))
        return basis @ self.weights

    def project(self):
        w = self.weights.detach().clamp(min=0.01)
        self.weights = nn.Parameter(w / w.sum())  # BUG replaced
        # FIX self.weights.data.copy_(w / w.sum())


model = Mixture(4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
x = torch.linspace(-2, 2, 40)
y = torch.exp(-((x - 0.5) ** 2))
for epoch in range(4):
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    model.project()
    print(epoch, loss.item())
