import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(30, 3)
y = x[:, :1] * x[:, 1:2]


def validate():
    torch.set_grad_enabled(False)  # BUG graph-cut
    # FIX with torch.no_grad():
    score = nn.functional.l1_loss(model(x[20:]), y[20:]).item()
    # FIX     score = nn.functional.l1_loss(model(x[20:]), y[20:]).item()
    return score


for epoch in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[:20]), y[:20])
    loss.backward()
    optimizer.step()
    print(epoch, loss.item(), validate())
