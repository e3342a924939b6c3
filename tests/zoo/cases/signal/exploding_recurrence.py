import torch
import torch.nn as nn

torch.manual_seed(0)


class Linear_RNN(nn.Module):
    """A recurrence without squashing."""

    def __init__(self, n):
        super().__init__()
        self.inp = nn.Linear(2, n)
        self.rec = nn.Parameter(torch.randn(n, n) * 0.9)  # BUG exploding
        # FIX self.rec = nn.Parameter(torch.linalg.qr(torch.randn(n, n))[0] * 0.9)
        self.out = nn.Linear(n, 1)

    def forward(self, xs):
        h = torch.zeros(xs.size(1), self.rec.size(0))
        for x in xs:
            h = self.inp(x) + h @ self.rec  # ALSO
        return self.out(h)


model = Linear_RNN(12)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
xs = torch.randn(25, 8, 2)
y = xs[-5:].sum(dim=(0, 2)).unsqueeze(1)
for it in range(2):
    loss = nn.functional.smooth_l1_loss(model(xs), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item(), model.rec.grad.norm().item())
