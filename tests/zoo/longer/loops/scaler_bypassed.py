"""Mixed precision with a scaler whose step is not used."""

import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Trainer:
    def __init__(self, model, lr=1e-3, amp=True):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=amp)
        self.loss_fn = nn.MSELoss()

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.model(x)
            loss = self.loss_fn(out.float(), y)
        self.scaler.scale(loss).backward()
        self.optimizer.step()  # BUG not-unscaled
        # FIX self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def fit(self, batches, epochs):
        for epoch in range(epochs):
            losses = [self.train_step(x, y) for x, y in batches]
            print(epoch, sum(losses) / len(losses))


model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
batches = [(x, x[:, :1] - x[:, 1:2]) for x in torch.randn(5, 16, 6)]
Trainer(model).fit(batches, epochs=2)
