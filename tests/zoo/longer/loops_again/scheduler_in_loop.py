import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR

EPOCHS = 5


def train_one_epoch(model, optimizer, batches):
    scheduler = CosineAnnealingLR(optimizer, T_max=EPOCHS)  # BUG schedule-without-effect
    # FIX
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    # FIX
    return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# ADD scheduler = CosineAnnealingLR(optimizer, T_max=EPOCHS)
batches = [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(4)]
for epoch in range(EPOCHS):
    loss = train_one_epoch(model, optimizer, batches)
    # ADD scheduler.step()
    print(epoch, loss, optimizer.param_groups[0]["lr"])
