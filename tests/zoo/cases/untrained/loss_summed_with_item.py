import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 16)
        self.left = nn.Linear(16, 1)
        self.right = nn.Linear(16, 1)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.left(h), self.right(h)


def total_loss(outputs, targets):
    main = F.mse_loss(outputs[0], targets[0])
    aux = F.l1_loss(outputs[1], targets[1])
    return main + 0.5 * aux.item()  # BUG graph-cut
    # FIX return main + 0.5 * aux


model = TwoHeads()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(30, 5)
targets = x[:, :1] * 2, x[:, 1:2].abs()
for epoch in range(4):
    opt.zero_grad()
    loss = total_loss(model(x), targets)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
