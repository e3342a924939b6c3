"""Plain least squares on columns of very different size."""
import torch
import torch.nn as nn

torch.manual_seed(0)

rooms = torch.randint(1, 8, (40, 1)).float()
area = rooms * 22 + torch.randn(40, 1) * 6
x = torch.cat([rooms, area], dim=1)
# ADD x = (x - x.mean(dim=0)) / x.std(dim=0)
y = 0.3 * rooms + 0.02 * area

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # BUG update-ratio
for epoch in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # ALSO
    print(epoch, loss.item())
