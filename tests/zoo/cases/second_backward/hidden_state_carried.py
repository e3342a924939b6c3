"""Truncated backpropagation through time over one long series."""
import torch
import torch.nn as nn

torch.manual_seed(0)

series = torch.sin(torch.linspace(0, 12, 61)).view(-1, 1)


class Forecaster(nn.Module):
    def __init__(self, hidden=10):
        super().__init__()
        self.cell = nn.RNNCell(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, window, h):
        preds = []
        for value in window:
            h = self.cell(value.view(1, 1), h)  # ALSO
            preds.append(self.out(h))
        return torch.cat(preds), h


model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
h = torch.zeros(1, 10)
for start in range(0, 60, 20):
    window = series[start : start + 20]
    target = series[start + 1 : start + 21]
    preds, h = model(window, h)  # BUG second-backward
    # FIX preds, h = model(window, h.detach())
    loss = nn.functional.mse_loss(preds, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
