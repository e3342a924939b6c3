import torch
import torch.nn as nn

torch.manual_seed(1234)
model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def noisy_batch(count):
    x = torch.randn(count, 6)
    return x + 0.1 * torch.randn(count, 6), x.sum(dim=1, keepdim=True)


for epoch in range(4):
    torch.manual_seed(1234)  # BUG reseeded
    # FIX
    for _ in range(2):
        x, y = noisy_batch(16)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
