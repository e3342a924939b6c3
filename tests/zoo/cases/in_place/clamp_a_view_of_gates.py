import torch
import torch.nn as nn

torch.manual_seed(2)


class GatedCell(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.gates = nn.Linear(2 * n, 2 * n)

    def forward(self, x, h):
        both = torch.sigmoid(self.gates(torch.cat([x, h], dim=1)))
        keep, new = both[:, : self.n], both[:, self.n :]
        keep.clamp_(max=0.9)  # BUG written-in-place
        # FIX keep = keep.clamp(max=0.9)
        return keep * h + (1 - keep) * new


cell, out = GatedCell(3), nn.Linear(3, 1)
params = list(cell.parameters()) + list(out.parameters())
opt = torch.optim.RMSprop(params, lr=0.005)
xs = torch.randn(5, 7, 3)
ys = xs.sum(dim=(0, 2)).view(7, 1)
for it in range(3):
    h = torch.zeros(7, 3)
    for x in xs:
        h = cell(x, h)
    loss = nn.functional.smooth_l1_loss(out(h), ys)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
