import torch
from torch import nn

torch.manual_seed(0)


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]  # BUG unregistered
        # FIX self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(sizes[-1], 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.out(x)


def main():
    net = MLP([3, 16, 16])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    x = torch.randn(64, 3)
    y = (x ** 2).sum(dim=1, keepdim=True)
    for epoch in range(5):
        loss = (net(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())


main()
