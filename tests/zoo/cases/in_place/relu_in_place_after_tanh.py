import torch
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 10)
        self.act = nn.Sequential(nn.Tanh(), nn.ReLU(inplace=True))  # BUG written-in-place
        # FIX self.act = nn.Sequential(nn.Tanh(), nn.ReLU())
        self.out = nn.Linear(10, 1)

    def forward(self, x):
        return self.out(self.act(self.proj(x)))  # ALSO


head = Head()
opt = torch.optim.SGD(head.parameters(), lr=0.05)
x = torch.randn(20, 6)
y = x.abs().mean(dim=1, keepdim=True)
for k in range(3):
    loss = nn.functional.mse_loss(head(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(k, loss.item())
