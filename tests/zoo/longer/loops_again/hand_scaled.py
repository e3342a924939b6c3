import torch
import torch.nn as nn

torch.manual_seed(0)


class Trainer:
    """Static loss scaling, like we had before GradScaler."""

    def __init__(self, model, lr, scale=1024.0):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.scale = scale
        self.crit = nn.MSELoss()

    def unscale(self):
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.div_(self.scale)

    def fit(self, batches):
        for i, (x, y) in enumerate(batches):
            loss = self.crit(self.model(x), y)
            self.opt.zero_grad()
            (loss * self.scale).backward()
            # ADD self.unscale()
            self.opt.step()  # BUG changed-after-the-step
            self.unscale()  # ALSO
            # FIX
            print(i, loss.item())


w = torch.randn(6, 1)
batches = []
for _ in range(8):
    x = torch.randn(32, 6)
    batches.append((x, x @ w + 0.1 * torch.randn(32, 1)))
Trainer(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)), lr=1e-3).fit(batches)
