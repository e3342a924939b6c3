import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
history = []

for it in range(6):
    x = torch.randn(16, 10)
    y = x[:, :4].argmax(dim=1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss)  # BUG history-kept
    # FIX history.append(loss.item())

print("mean loss", sum(history) / len(history))
