import torch
import torch.nn as nn

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.style = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, w):
        return self.body(w)


gen = Generator()
opt = torch.optim.Adam(gen.parameters(), lr=2e-3)
z = torch.randn(10, 4)
w = gen.style(z)  # BUG second-backward
# FIX
goal = torch.tensor([1.0, -1.0, 0.5])
for i in range(4):
    # ADD w = gen.style(z)
    out = gen(w)  # ALSO
    loss = (out - goal).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
