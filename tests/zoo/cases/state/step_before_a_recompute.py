"""Two losses from checkpointed forwards: the second is recomputed with weights of after the step."""
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=False))  # ALSO


net = Net()
body = torch.optim.SGD(net.body.parameters(), lr=0.1)
head = torch.optim.SGD(net.head.parameters(), lr=0.1)
x = torch.randn(16, 12)
y = x.mean(dim=1, keepdim=True)
for step in range(3):
    near = nn.functional.mse_loss(net(x), y)
    far = nn.functional.l1_loss(net(x), y)
    body.zero_grad()
    head.zero_grad()
    near.backward(retain_graph=True)
    body.step()  # BUG recompute-differs
    # FIX far.backward()
    far.backward()  # ALSO
    # FIX body.step()
    head.step()
    print(step, near.item(), far.item())
