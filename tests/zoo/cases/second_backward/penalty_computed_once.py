import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(30, 5)
y = x @ torch.randn(5, 1)

l2 = 0.01 * (model.weight ** 2).sum()  # BUG second-backward
# FIX

for epoch in range(3):
    for xb, yb in zip(x.split(10), y.split(10)):
        # ADD l2 = 0.01 * (model.weight ** 2).sum()
        loss = ((model(xb) - yb) ** 2).mean() + l2  # ALSO
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
