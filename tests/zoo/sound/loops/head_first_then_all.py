import torch
import torch.nn as nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(5, 20), nn.ReLU())
head = nn.Linear(20, 1)
x = torch.randn(30, 5)
y = x.abs().sum(dim=1, keepdim=True)


def fit(params, lr, steps):
    opt = torch.optim.Adam(params, lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = nn.functional.mse_loss(head(body(x)), y)
        loss.backward()
        opt.step()
        print(loss.item())


for p in body.parameters():
    p.requires_grad_(False)
fit(head.parameters(), 0.02, 3)
for p in body.parameters():
    p.requires_grad_(True)
fit([*body.parameters(), *head.parameters()], 0.005, 3)
