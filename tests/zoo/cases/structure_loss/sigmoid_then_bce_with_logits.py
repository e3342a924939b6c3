import torch
import torch.nn as nn

torch.manual_seed(0)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(7, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, x):
        h = torch.tanh(self.hidden(x))
        return torch.sigmoid(self.out(h))  # BUG double-sigmoid
        # FIX return self.out(h)


detector = Detector()
criterion = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(detector.parameters(), lr=0.02)
x = torch.randn(50, 7)
y = (x.sum(dim=1, keepdim=True) > 1).float()
for step in range(4):
    opt.zero_grad()
    loss = criterion(detector(x), y)  # ALSO
    loss.backward()
    opt.step()
    print(step, loss.item())
