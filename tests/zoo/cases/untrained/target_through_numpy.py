import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)


class Smoother(nn.Module):
    """Predicts a curve and smooths it with a fixed window."""

    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, n))
        self.gain = nn.Parameter(torch.ones(()))
        self.window = np.array([0.25, 0.5, 0.25], dtype=np.float32)

    def forward(self, x):
        raw = self.net(x)
        rows = [np.convolve(row, self.window, mode="same") for row in raw.detach().numpy()]  # BUG graph-cut
        # FIX window = torch.from_numpy(self.window).view(1, 1, 3)
        smooth = torch.from_numpy(np.stack(rows))  # ALSO
        # FIX smooth = torch.conv1d(raw.unsqueeze(1), window, padding=1).squeeze(1)
        return self.gain * smooth


model = Smoother(9)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.rand(12, 2)
t = torch.linspace(0, 3, 9)
y = x[:, :1] * torch.sin(t) + x[:, 1:]
for step in range(4):
    opt.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    opt.step()
    print(step, loss.item())
