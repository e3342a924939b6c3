import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 4))
net.eval().requires_grad_(False)
picture = torch.rand(1, 1, 8, 8, requires_grad=True)
opt = torch.optim.Adam([picture], lr=0.02)
for _ in range(4):
    opt.zero_grad()
    loss = -net(picture)[0, 2] + 0.01 * picture.pow(2).sum()
    loss.backward()
    opt.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
    print(loss.item())
