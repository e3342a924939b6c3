"""Evaluation is switched on by hand, and dropout goes on."""

import torch
from torch import nn

torch.manual_seed(2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.4))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def evaluate(model, x, y):
    model.training = False  # BUG no-effect
    # FIX model.eval()
    loss = nn.functional.mse_loss(model(x), y)
    # ADD model.train()
    return loss.item()


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for epoch in range(4):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    print(epoch, evaluate(model, x, y))
