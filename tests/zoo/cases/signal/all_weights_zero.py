import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.zeros(5, 16))  # BUG symmetric
        # FIX self.w1 = nn.Parameter(torch.randn(5, 16) * 0.4)
        self.b1 = nn.Parameter(torch.zeros(16))
        self.w2 = nn.Parameter(torch.zeros(16, 1))  # ALSO
        # FIX self.w2 = nn.Parameter(torch.randn(16, 1) * 0.25)
        self.b2 = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.tanh(x @ self.w1 + self.b1) @ self.w2 + self.b2


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(50, 5)
y = x[:, :1] - x[:, 1:2]
for epoch in range(4):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
