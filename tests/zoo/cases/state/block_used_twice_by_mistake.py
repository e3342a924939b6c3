"""Six blocks were wanted; a list of one block times six is one block."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width)] * depth)  # BUG tied-twice
        # FIX self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)  # ALSO
        return self.out(x)


tower = Tower(8, 4)
opt = torch.optim.Adam(tower.parameters(), lr=0.005)
x = torch.randn(24, 8)
y = (x[:, 0] > x[:, 1]).long()
for step in range(3):
    loss = nn.functional.cross_entropy(tower(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
