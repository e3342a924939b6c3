"""A tied autoencoder; the decoder uses the encoder's weight."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(5, 10) * 0.3)
        self.b = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        code = torch.tanh(F.linear(x, self.a))
        code = code.data  # BUG graph-cut
        # FIX
        return F.linear(code, self.a.t(), self.b)


ae = Tied()
opt = torch.optim.SGD(ae.parameters(), lr=0.1)
x = torch.randn(25, 10)
for epoch in range(4):
    rec = ae(x)
    loss = ((rec - x) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
