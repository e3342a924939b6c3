import torch
import torch.nn as nn

torch.manual_seed(0)


class Projector(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.body = nn.Linear(12, 20)
        # ADD self.last = nn.Linear(20, out)

    def forward(self, x):
        h = torch.relu(self.body(x))
        last = nn.Linear(h.size(1), self.out)  # BUG unregistered
        # FIX
        return last(h)
        # FIX return self.last(h)


model = Projector(2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(30, 12)
y = torch.stack([x[:, 0], x[:, 1] * x[:, 2]], dim=1)
for epoch in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
