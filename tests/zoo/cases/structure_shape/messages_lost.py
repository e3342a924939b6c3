"""Message passing on a list of edges."""
import torch
from torch import nn

torch.manual_seed(0)
N, E = 10, 30
src, dst = torch.randint(0, N, (E,)), torch.randint(0, N, (E,))
x, y = torch.randn(N, 8), torch.randn(N)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message, self.update = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)

    def forward(self, h):
        m = torch.relu(self.message(torch.cat([h[src], h[dst]], 1)))
        total = torch.zeros_like(h)
        total[dst] += m  # BUG duplicates-lost
        # FIX total = total.index_add(0, dst, m)
        return torch.tanh(self.update(torch.cat([h, total], 1)))


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(8), Layer(8)])
        self.read = nn.Linear(8, 1)

    def forward(self, h):
        for layer in self.layers:
            h = layer(h)
        return self.read(h).squeeze(1)


net = GNN()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(6):
    loss = (net(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
