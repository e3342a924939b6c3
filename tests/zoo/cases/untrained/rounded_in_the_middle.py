import torch
import torch.nn as nn

torch.manual_seed(0)


class Quantised(nn.Module):
    def __init__(self, levels=15):
        super().__init__()
        self.levels = levels
        self.enc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Sigmoid())
        self.dec = nn.Linear(4, 8)

    def quantise(self, code):
        q = torch.round(code * self.levels) / self.levels  # BUG graph-cut
        # FIX q = code + (torch.round(code * self.levels) / self.levels - code).detach()
        return q

    def forward(self, x):
        return self.dec(self.quantise(self.enc(x)))


model = Quantised()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 8)
for step in range(5):
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2 == 0:
        print(step, loss.item())
