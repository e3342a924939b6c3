"""An encoder that was trained first is a part of the model that is trained next."""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(48, 6)
encoder = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU())
decoder = nn.Linear(12, 6)
first = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.05)
for step in range(3):
    loss = (decoder(encoder(x)) - x).pow(2).mean()
    first.zero_grad()
    loss.backward()
    first.step()


class Classifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.encoder.eval()
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        with torch.no_grad():
            features = self.encoder(x)
        return self.head(features)


model = Classifier(encoder)
second = torch.optim.SGD(model.head.parameters(), lr=0.1)
y = (x.sum(1) > 0).long()
for epoch in range(3):
    model.train()  # BUG mode-left
    # FIX model.head.train()
    loss = nn.functional.cross_entropy(model(x), y)
    second.zero_grad()
    loss.backward()
    second.step()
    model.eval()
    print(epoch, (model(x).argmax(1) == y).float().mean().item())
