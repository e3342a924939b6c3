"""Layers with the batch first, whose states have the layers first: `h[-1]` is the last layer's."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 16, batch_first=True)
        self.two = nn.GRU(4, 8, num_layers=2, batch_first=True)
        self.fc = nn.Linear(24, 2)

    def forward(self, x):
        _, (h, c) = self.rnn(x)
        _, state = self.two(x)
        return self.fc(torch.cat([h[-1] * c[-1], state[-1]], 1))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(5):
    x, y = torch.randn(6, 9, 4), torch.randint(0, 2, (6,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
