import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 16),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(16, 16),
            nn.Tanh(),
            nn.Linear(16, 2),
        )

    def forward(self, x):
        return self.layers(x)


net = Net()
print(net, sum(p.numel() for p in net.parameters()))
x = torch.randn(64, 2)
y = (x[:, 0] * x[:, 1] > 0).long()
opt = optim.Adam(net.parameters(), lr=0.01)
sched = optim.lr_scheduler.StepLR(opt, 10, 0.5)
for epoch in range(30):
    perm = torch.randperm(64)
    for i in range(0, 64, 16):
        idx = perm[i : i + 16]
        opt.zero_grad()
        loss = F.cross_entropy(net(x[idx]), y[idx])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
    sched.step()
    if epoch % 5 == 0:
        print(epoch, f"{loss.item():.4f}", f"{sched.get_last_lr()[0]:.5f}")
net.eval()
with torch.no_grad():
    pred = net(x).argmax(1)
    print("acc", (pred == y).float().mean().item())
    print(net(x[:3]))
sd = net.state_dict()
n2 = Net()
print(n2.load_state_dict(sd))
print(torch.allclose(n2.eval()(x), net(x)))
