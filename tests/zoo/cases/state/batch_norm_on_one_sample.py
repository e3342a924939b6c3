"""Online learning, one sample at a time."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(5, 10)
        self.norm = nn.BatchNorm2d(10)  # BUG batch-of-one
        # FIX self.norm = nn.LayerNorm(10)
        self.out = nn.Linear(10, 1)

    def forward(self, x):
        h = self.inp(x)
        h = self.norm(h[:, :, None, None])[:, :, 0, 0]  # ALSO
        # FIX h = self.norm(h)
        return self.out(torch.relu(h))


model = Online()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
stream = torch.randn(6, 5)
for sample in stream:
    y = sample.sum().view(1, 1)
    loss = (model(sample.unsqueeze(0)) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
