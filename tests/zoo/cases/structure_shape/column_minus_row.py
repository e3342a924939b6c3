import torch
import torch.nn as nn

torch.manual_seed(0)

N = 25
features = torch.randn(N, 3)
prices = features @ torch.tensor([2.0, -1.0, 0.5]) + 0.1 * torch.randn(N)

model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(5):
    pred = model(features)
    loss = ((pred - prices) ** 2).mean()  # BUG broadcast
    # FIX loss = ((pred.squeeze(1) - prices) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
