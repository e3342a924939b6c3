"""Between epochs one batch is looked at in eval mode; its result is replaced by the next."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, held_out = torch.randn(40, 6), torch.randn(10, 6)
for epoch in range(3):
    optimizer.zero_grad()
    F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
    model.eval()
    prediction = model(held_out)
    print(epoch, F.mse_loss(prediction, held_out.sum(1, keepdim=True)).item())
    model.train()
