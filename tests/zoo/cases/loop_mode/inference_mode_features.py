"""Features are computed once, under inference_mode, and then trained on."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


@torch.inference_mode()  # BUG graph-cut
# FIX @torch.no_grad()
def extract(backbone, images):
    return torch.cat([backbone(chunk) for chunk in images.split(8)])  # ALSO


backbone = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16)).eval()
images = torch.randn(24, 12)
labels = (images.sum(dim=1) > 0).long()
features = extract(backbone, images)  # ALSO

probe = nn.Linear(16, 2)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(probe(features), labels)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
