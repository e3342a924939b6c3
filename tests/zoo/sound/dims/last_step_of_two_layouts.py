"""A layer with the batch first, made over several lines, and one with steps first."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(
            4,
            16,
            num_layers=1,
            batch_first=True,
        )
        self.back = nn.GRU(16, 16)
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        out, _ = self.rnn(x)
        out, _ = self.back(out.transpose(0, 1))
        return self.fc(out[-1])


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(5):
    x, y = torch.randn(6, 9, 4), torch.randint(0, 2, (6,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
