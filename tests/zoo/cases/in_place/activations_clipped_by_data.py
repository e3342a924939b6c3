"""Gates are kept above a floor; through .data, so that nothing complains."""
import torch
import torch.nn as nn

torch.manual_seed(2)


class Highway(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.carry = nn.Linear(size, size)

    def forward(self, x):
        gate = torch.sigmoid(self.carry(x))
        mixed = gate * torch.tanh(self.transform(x)) + (1 - gate) * x
        gate.data[gate.data < 0.45] = 0.45  # BUG written-unseen
        # FIX
        return mixed


net = nn.Sequential(Highway(7), Highway(7), nn.Linear(7, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
points = torch.randn(30, 7)
values = points.abs().sum(dim=1, keepdim=True)
for it in range(4):
    loss = nn.functional.l1_loss(net(points), values)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
