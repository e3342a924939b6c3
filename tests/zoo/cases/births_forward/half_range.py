import torch
from torch import nn

torch.manual_seed(0)

"""Energy-based regulariser; activations are stored in half to save memory."""


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64))

    def forward(self, x):
        return self.body(x)


def energy(features):
    stored = (features * 80.0).half()
    squared = stored * stored  # BUG non-finite
    # FIX squared = stored.float() ** 2
    return squared.float().mean(dim=1)


encoder = Encoder()
head = nn.Linear(64, 1)
params = list(encoder.parameters()) + list(head.parameters())
opt = torch.optim.SGD(params, lr=0.01)
inputs = torch.randn(16, 10) 
target = inputs.sum(dim=1, keepdim=True)

for i in range(3):
    feats = encoder(inputs)
    mse = (head(feats) - target).pow(2).mean()
    reg = energy(feats * 12).mean()
    loss = mse + 1e-7 * reg
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
