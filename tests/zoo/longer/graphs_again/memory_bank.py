import torch
import torch.nn as nn
import torch.nn.functional as F


class MemoryNet(nn.Module):
    """Keeps a slot memory that is written at every step of a sequence."""

    def __init__(self, slots=6, d=8):
        super().__init__()
        self.slots, self.d = slots, d
        self.read = nn.Linear(d, d)
        self.write = nn.Linear(d, d)
        self.out = nn.Linear(d, 2)

    def forward(self, xs):
        memory = torch.zeros(self.slots, self.d)
        total = 0
        for t, x in enumerate(xs):
            att = F.softmax(memory @ self.read(x), dim=0)
            total = total + att @ memory
            slot = t % self.slots
            memory[slot] = torch.tanh(self.write(x))  # BUG written-in-place
            # FIX rows = list(memory.unbind(0))
            # FIX rows[slot] = torch.tanh(self.write(x))
            # FIX memory = torch.stack(rows)
        return self.out(total)


torch.manual_seed(0)
net = MemoryNet()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(8):
    xs = torch.randn(9, 8)
    y = torch.tensor([int(xs.sum() > 0)])
    loss = F.cross_entropy(net(xs).unsqueeze(0), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
