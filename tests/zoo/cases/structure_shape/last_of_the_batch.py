"""Classifying sequences with a GRU whose input is batch first."""
import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self, features=6, hidden=20, classes=3):
        super().__init__()
        self.rnn = nn.GRU(features, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.fc(self.drop(out[-1]))  # BUG wrong-index
        # FIX return self.fc(self.drop(out[:, -1]))


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(40, 10, 6)
y = (x.mean((1, 2)) > 0).long() + (x[:, 0, 0] > 1).long()
for epoch in range(3):
    for i in range(0, 40, 10):
        logits = model(x[i : i + 10])
        loss = nn.functional.cross_entropy(logits, y[i : i + 10])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
