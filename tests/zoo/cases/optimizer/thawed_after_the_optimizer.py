"""Fine-tuning with batch norm; the head is new, the rest frozen for the first epochs."""
import torch
from torch import nn

torch.manual_seed(0)


def backbone():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.head = backbone(), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.features(x))


model = Model()
for p in model.features.parameters():
    p.requires_grad = False  # ALSO
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
x, y = torch.randn(24, 3, 16, 16), torch.randint(0, 4, (24,))
for epoch in range(6):
    if epoch == 2:
        for p in model.features.parameters():
            p.requires_grad = True  # BUG not-in-optimizer
        # ADD optimizer.add_param_group({"params": model.features.parameters(), "lr": 0.005})
    model.train()
    for i in range(0, 24, 8):
        loss = nn.functional.cross_entropy(model(x[i : i + 8]), y[i : i + 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
