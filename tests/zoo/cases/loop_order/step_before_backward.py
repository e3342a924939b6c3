import torch
import torch.nn as nn

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.rand(50, 2)
y = (x[:, :1] - x[:, 1:]).abs()


def train_one(x, y):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    opt.step()  # BUG stepped-too-early
    # FIX loss.backward()
    loss.backward()  # ALSO
    # FIX opt.step()
    return loss.item()


for i in range(5):
    print(i, train_one(x, y))
