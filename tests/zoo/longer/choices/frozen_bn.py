"""Fine-tune a head; the pretrained backbone is supposed to stay exactly as it was."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
backbone = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
)
head = nn.Linear(8, 2)
model = nn.Sequential(backbone, head)
for p in backbone.parameters():
    p.requires_grad = False
backbone.eval()
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()  # BUG mode-left
    # ADD backbone.eval()
    for _ in range(3):
        x, y = torch.randn(8, 3, 8, 8) * 3 + 1, torch.randint(0, 2, (8,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean()
    print(epoch, loss.item(), acc.item())
