"""Fine-tuning: the encoder is meant to learn with the head."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        return self.net(x)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        feats = self.encoder(x).detach()  # BUG graph-cut
        # FIX feats = self.encoder(x)
        return self.head(F.relu(feats))


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(30, 7)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
