"""A second head is built and shown to the optimizer; its loss was forgotten."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 20)
        self.main = nn.Linear(20, 3)
        self.aux = nn.Linear(20, 1)  # ALSO

    def forward(self, x):
        h = torch.relu(self.stem(x))
        return self.main(h), self.aux(h)


def criterion(outputs, y, amount):
    logits, predicted = outputs
    return F.cross_entropy(logits, y)  # BUG unused
    # FIX return F.cross_entropy(logits, y) + 0.1 * F.mse_loss(predicted, amount)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(30, 6)
y, amount = x[:, :3].argmax(dim=1), x.sum(dim=1, keepdim=True)
for step in range(4):
    outputs = net(x)  # ALSO
    loss = criterion(outputs, y, amount)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
