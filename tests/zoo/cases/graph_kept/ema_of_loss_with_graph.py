import torch
import torch.nn as nn

torch.manual_seed(0)


class Progress:
    """A smoothed loss for the progress bar."""

    def __init__(self, beta=0.8):
        self.beta = beta
        self.value = None

    def __call__(self, loss):
        if self.value is None:
            self.value = loss  # ALSO
            # FIX self.value = loss.detach()
        else:
            self.value = self.beta * self.value + (1 - self.beta) * loss  # BUG graph-grows
            # FIX self.value = self.beta * self.value + (1 - self.beta) * loss.detach()
        return f"{self.value.item():.4f}"


progress = Progress()
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for it in range(6):
    x = torch.rand(20, 3)
    loss = (net(x) - x.max(dim=1, keepdim=True).values).pow(2).mean()
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    print(it, progress(loss))
