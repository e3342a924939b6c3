import torch
import torch.nn as nn

torch.manual_seed(0)


def bce(p, t):
    return -(t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean()  # BUG non-finite
    # FIX return nn.functional.binary_cross_entropy_with_logits(p, t)


class Logistic(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, 1)
        nn.init.constant_(self.linear.weight, 0.5)

    def forward(self, x):
        return torch.sigmoid(self.linear(x)).squeeze(1)
        # FIX return self.linear(x).squeeze(1)


x = torch.randn(30, 4)
x[7] = 45.0  # an outlier, and it is of the other class
t = (x.sum(dim=1) > 0).float()
t[7] = 0.0
model = Logistic(4)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    loss = bce(model(x), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
