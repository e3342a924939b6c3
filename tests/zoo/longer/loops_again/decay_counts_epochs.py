"""Polynomial decay; the schedule is stepped after each batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
EPOCHS, BATCHES = 4, 6


def train(net, batches):
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    poly = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda step: max(0.0, 1 - step / EPOCHS) ** 0.9,  # BUG rate-by-a-wrong-factor
        # FIX lambda step: max(0.0, 1 - step / (EPOCHS * BATCHES)) ** 0.9,
    )
    for epoch in range(EPOCHS):
        for x, y in batches:
            opt.zero_grad()
            loss = F.smooth_l1_loss(net(x).squeeze(1), y)
            loss.backward()
            opt.step()
            poly.step()
        print(epoch, loss.item(), poly.get_last_lr())


data = [torch.randn(16, 6) for _ in range(BATCHES)]
train(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)), [(x, x.sum(1)) for x in data])
