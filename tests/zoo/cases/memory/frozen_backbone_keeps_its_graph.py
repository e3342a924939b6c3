"""Linear probing: the backbone is never trained, and still builds a graph."""
import torch
import torch.nn as nn

torch.manual_seed(0)

backbone = nn.Sequential(
    nn.Linear(20, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 32)
)
backbone.eval()
probe = nn.Linear(32, 2)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)  # ALSO
x = torch.randn(64, 20)
y = (x[:, :10].sum(dim=1) > 0).long()

for epoch in range(4):
    # ADD with torch.no_grad():
    feats = backbone(x)  # BUG not-in-optimizer
    # FIX     feats = backbone(x)
    loss = nn.functional.cross_entropy(probe(feats), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
