"""Mixed precision with a hand-made static scale, clipped while still scaled."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Scaler:
    def __init__(self, scale, optimizer):
        self.scale, self.optimizer = scale, optimizer

    def unscale_(self):
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(self.scale)


model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = Scaler(1024.0, opt)
x = torch.randn(32, 4)
y = x[:, :2].pow(2).sum(dim=1, keepdim=True)
for step in range(4):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    (loss * scaler.scale).backward()
    # ADD scaler.unscale_()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # BUG not-unscaled
    scaler.unscale_()  # ALSO
    # FIX
    opt.step()
    print(step, loss.item())
