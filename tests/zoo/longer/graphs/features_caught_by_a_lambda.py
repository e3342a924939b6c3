"""Features are caught by a hook in a lambda, with their graph."""
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
feats = []
net[0].register_forward_hook(lambda m, i, o: feats.append(o))  # BUG history-kept
# FIX net[0].register_forward_hook(lambda m, i, o: feats.append(o.detach()))
opt = torch.optim.Adam(net.parameters())
for _ in range(8):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
