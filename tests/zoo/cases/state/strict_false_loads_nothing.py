import io

import torch
import torch.nn as nn

torch.manual_seed(0)


class Wrapped(nn.Module):
    """As DataParallel does: its names begin with `module.`"""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def net():
    return nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 1))


file = io.BytesIO()
torch.save(Wrapped(net()).state_dict(), file)
file.seek(0)
state = torch.load(file)
# FIX state = {name.removeprefix("module."): value for name, value in torch.load(file).items()}

model = net()
model.load_state_dict(state, strict=False)  # BUG nothing-loaded
# FIX model.load_state_dict(state)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(20, 3)
y = x.max(dim=1, keepdim=True).values
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
