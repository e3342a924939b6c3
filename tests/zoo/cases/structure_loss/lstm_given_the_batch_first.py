"""Forecasting with an LSTM that was given the batch first."""
import torch
from torch import nn

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, num_layers=2)  # BUG wrong-index
        # FIX self.lstm = nn.LSTM(1, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1, :])  # ALSO


series = torch.sin(torch.linspace(0, 30, 200))
windows = series.unfold(0, 13, 1)
x, y = windows[:, :12, None], windows[:, 12:]
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for idx in torch.randperm(len(x)).split(47):
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
