import torch
import torch.nn as nn

torch.manual_seed(0)

sizes = [51.2, 63.0, 78.5, 90.1, 102.4, 120.0]
prices = [0.9, 1.1, 1.45, 1.6, 1.9, 2.2]
x = (torch.tensor(sizes).unsqueeze(1) - 80) / 20
y = torch.tensor(prices, dtype=torch.float64).unsqueeze(1)  # BUG dtype-creep
# FIX y = torch.tensor(prices).unsqueeze(1)

model = nn.Linear(1, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    error = model(x) - y  # ALSO
    loss = (error ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
