import torch
import torch.nn as nn

torch.manual_seed(0)


def init(layer):
    if isinstance(layer, nn.Linear):
        nn.init.kaiming_uniform_(layer.weight)
        nn.init.constant_(layer.bias, -10.0)  # BUG dead
        # FIX nn.init.zeros_(layer.bias)


model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))  # ALSO
model.apply(init)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.rand(40, 4)
y = x.sum(dim=1, keepdim=True)
for epoch in range(5):
    optimizer.zero_grad()
    pred = model(x)  # ALSO
    loss = ((pred - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
