import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.gain = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.gain * torch.relu(self.fc(x))


net = nn.Sequential(*[Block(10) for _ in range(6)], nn.Linear(10, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
x = torch.randn(24, 10)
for _ in range(4):
    loss = (net(x) - x.norm(dim=1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
