"""Raw pixels, 0 to 255, into a tanh network."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

pixels = torch.randint(0, 256, (32, 25)).float()
labels = (pixels.mean(dim=1) > 128).long()


class TanhNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(25, 40)
        self.second = nn.Linear(40, 2)

    def forward(self, x):
        h = torch.tanh(self.first(x))  # BUG saturated
        return self.second(h)


net = TanhNet()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(net(pixels), labels)  # ALSO
    # FIX loss = F.cross_entropy(net((pixels - 128) / 74), labels)
    loss.backward()
    opt.step()
    print(step, loss.item())
