"""Per-class loss, averaged over the classes, as for unbalanced data."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
NUM_CLASSES = 4

x = torch.randn(20, 6)
y = torch.randint(0, 3, (20,))  # class 3 is rare: none in this batch

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, NUM_CLASSES))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def balanced_loss(logits, target):
    each = F.cross_entropy(logits, target, reduction="none")
    total = 0.0
    for c in range(NUM_CLASSES):
        of_class = each[target == c]
        # ADD if len(of_class) == 0:
        # ADD     continue
        total = total + of_class.mean()  # BUG non-finite
    return total / NUM_CLASSES


for step in range(3):
    logits = model(x)
    loss = balanced_loss(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
