"""Early stopping: the best weights are kept, and restored at the end."""
import torch
import torch.nn as nn


class EarlyStopping:
    def __init__(self, patience=3):
        self.patience, self.best, self.bad, self.state = patience, float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad = value, 0
            self.state = model.state_dict()  # BUG not-a-copy
            # FIX self.state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience


torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(64, 4)
y = x @ torch.tensor([[1.0], [2.0], [0.0], [-1.0]])
stop = EarlyStopping()
for epoch in range(8):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x[:48]), y[:48])
    loss.backward()
    opt.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(x[48:]), y[48:]).item()
    if stop(val, net):
        break
net.load_state_dict(stop.state)
