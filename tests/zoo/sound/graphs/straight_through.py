import torch
import torch.nn as nn

torch.manual_seed(0)
enc, dec = nn.Linear(6, 3), nn.Linear(3, 6)
codes = nn.Parameter(torch.randn(8, 3) * 0.5)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), codes], lr=0.01)
x = torch.randn(24, 6)
for _ in range(3):
    z = enc(x)
    nearest = codes[torch.cdist(z, codes).argmin(dim=1)]
    quantised = z + (nearest - z).detach()
    commit = (nearest.detach() - z).pow(2).mean() * 0.25 + (nearest - z.detach()).pow(2).mean()
    loss = (dec(quantised) - x).pow(2).mean() + commit
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
