import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
params = model.parameters()  # ALSO
# FIX params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.05)

for step in range(4):
    x = torch.randn(20, 3)
    y = 8 * x[:, :1] * x[:, 1:2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(params, 1.0)  # BUG clipped-at-the-wrong-time
    optimizer.step()
    print(step, loss.item())
