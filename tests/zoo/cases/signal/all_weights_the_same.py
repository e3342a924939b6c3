"""A constant initialization keeps all hidden units alike for ever."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def initialize(model):
    for name, p in model.named_parameters():
        if name.endswith("weight"):
            nn.init.constant_(p, 0.1)  # BUG symmetric
            # FIX nn.init.xavier_uniform_(p)
        else:
            nn.init.zeros_(p)
    return model


clf = initialize(nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 2)))  # ALSO
opt = torch.optim.Adam(clf.parameters(), lr=0.02)
x = torch.randn(40, 6)
y = (x[:, 0] > x[:, 1]).long()
for epoch in range(4):
    loss = F.cross_entropy(clf(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
