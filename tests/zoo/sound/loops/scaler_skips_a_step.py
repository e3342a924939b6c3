"""The first scale is too large for half precision; the scaler notices, and steps later."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x).half()).float())


model = Half()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22, growth_interval=100)
x = torch.randn(16, 4)
y = 3 * x.sum(dim=1, keepdim=True)
for step in range(12):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(opt)
    scaler.update()
print(loss.item(), scaler.get_scale())
