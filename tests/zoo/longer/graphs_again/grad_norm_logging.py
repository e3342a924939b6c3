import torch
import torch.nn as nn
import torch.nn.functional as F


class Logger:
    def __init__(self):
        self.rows = []

    def log(self, step, **values):
        self.rows.append({"step": step, **values})


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
logger = Logger()
for step in range(8):
    x = torch.randn(64, 12)
    y = x.pow(2).sum(1, keepdim=True)
    loss = F.smooth_l1_loss(model(x), y)
    grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    norm = torch.stack([g.norm() for g in grads]).norm()
    optimizer.zero_grad()
    for p, g in zip(model.parameters(), grads):
        p.grad = g.detach()
    optimizer.step()
    logger.log(step, loss=loss.detach(), norm=norm)  # BUG history-kept
    # FIX logger.log(step, loss=loss.item(), norm=norm.item())
print(len(logger.rows))
