"""Regression of one number; the rest of the data is a batch of one sample."""
import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 5, 3)
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        h = torch.relu(self.conv(x)).amax(dim=2, keepdim=True)
        h = h.squeeze()  # BUG batch-squeezed
        # FIX h = h.squeeze(2)
        return torch.log_softmax(self.fc(h), dim=1)


torch.manual_seed(0)
model = Scores()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
signals, classes = torch.randn(17, 2, 9), torch.randint(0, 3, (17,))
for epoch in range(2):
    for x, y in zip(signals.split(8), classes.split(8), strict=True):
        loss = nn.functional.nll_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
