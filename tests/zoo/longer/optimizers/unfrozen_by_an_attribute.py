"""Gradual unfreezing: `requires_grad` of a module is set, which is no parameter's."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU())
        self.head = nn.Linear(20, 2)

    def forward(self, x):
        return self.head(self.encoder(x))

    def freeze(self):
        for p in self.encoder.parameters():
            p.requires_grad = False  # ALSO

    def unfreeze(self):
        self.encoder.requires_grad = True  # BUG frozen
        # FIX self.encoder.requires_grad_(True)


def run_epoch(model, optimizer, x, y):
    model.train()
    for xb, yb in zip(x.split(12), y.split(12)):
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


model = Classifier()
x = torch.randn(48, 10)
y = (x[:, 0] * x[:, 1] > 0).long()

model.freeze()
head_only = torch.optim.Adam(model.head.parameters(), lr=1e-2)
for epoch in range(2):
    print("head", run_epoch(model, head_only, x, y))

model.unfreeze()
everything = torch.optim.Adam(model.parameters(), lr=1e-3)  # ALSO
for epoch in range(2):
    print("all", run_epoch(model, everything, x, y))
