"""A gate starts closed: its bias is -30, so that the branch behind it never learns."""
import torch
import torch.nn as nn


class Highway(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.t, self.h = nn.Linear(d, d), nn.Linear(d, d)
        nn.init.constant_(self.t.bias, -30.0)  # BUG saturated
        # FIX nn.init.constant_(self.t.bias, -1.0)

    def forward(self, x):
        g = torch.sigmoid(self.t(x))  # ALSO
        return g * torch.relu(self.h(x)) + (1 - g) * x  # ALSO


torch.manual_seed(0)
net = nn.Sequential(Highway(8), Highway(8), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(32, 8)
    loss = (net(x) - x.prod(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
