import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
x = torch.randn(24, 4)
y = x.sum(dim=1, keepdim=True)

for epoch in range(6):
    scheduler.step()  # BUG scheduled-at-the-wrong-time
    # FIX
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    # ADD scheduler.step()
    print(epoch, scheduler.get_last_lr(), loss.item())
