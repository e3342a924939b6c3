import torch
import torch.nn as nn

torch.manual_seed(6)

SCALE = 2.0 ** 24  # BUG non-finite
# FIX SCALE = 2.0 ** 8


class Half(nn.Module):
    """The hidden layer computes in half precision."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(5, 24)
        self.down = nn.Linear(24, 1)

    def forward(self, x):
        h = self.up(x).half()  # ALSO
        h = torch.tanh(h)  # ALSO
        return self.down(h.float())


model = Half()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(16, 5)
y = x.sum(dim=1, keepdim=True)
for step in range(3):
    opt.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    (loss * SCALE).backward()  # ALSO
    for p in model.parameters():
        p.grad.div_(SCALE)
    opt.step()
    print(step, loss.item())
