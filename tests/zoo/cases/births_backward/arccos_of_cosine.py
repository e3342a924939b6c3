import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)


class ArcHead(nn.Module):
    """Angles between features and class centres."""

    def __init__(self, width, classes):
        super().__init__()
        self.centres = nn.Parameter(torch.eye(classes, width))

    def forward(self, feats):
        cos = F.normalize(feats, dim=1) @ F.normalize(self.centres, dim=1).t()
        return torch.acos(cos.clamp(-1.0, 1.0))  # BUG non-finite
        # FIX return torch.acos(cos.clamp(-1 + 1e-4, 1 - 1e-4))


features = torch.randn(9, 4)
features[2] = torch.tensor([3.0, 0.0, 0.0, 0.0])  # exactly along the first centre
target = torch.randint(0, 3, (9,))

head = ArcHead(4, 3)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for epoch in range(3):
    optimizer.zero_grad()
    theta = head(features)
    loss = F.cross_entropy(-4.0 * theta, target)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
