import torch
import torch.nn as nn

torch.manual_seed(9)
B, D = 24, 24  # batch and number of sensors happen to agree


class SensorAE(nn.Module):
    def __init__(self, d, z=6):
        super().__init__()
        self.enc = nn.Linear(d, z)
        self.dec = nn.Linear(z, d)

    def forward(self, x):
        return self.dec(torch.tanh(self.enc(x)))


model = SensorAE(D)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.randn(240, D).cumsum(1) / 5
weight = 1.0 / (1.0 + data.abs().mean(1))

for epoch in range(3):
    perm = torch.randperm(len(data))
    for idx in perm.split(B):
        x, w = data[idx], weight[idx]
        err = (model(x) - x) ** 2
        loss = (w * err).mean()  # BUG broadcast
        # FIX loss = (w[:, None] * err).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
