import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def softmax(scores):
    e = torch.exp(scores)  # BUG non-finite
    # FIX e = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
    return e / e.sum(dim=1, keepdim=True)  # ALSO


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.fc2 = nn.Linear(32, 3)

    def forward(self, x):
        return softmax(self.fc2(F.relu(self.fc1(x))))


sensors = torch.rand(24, 8)
labels = (sensors[:, 0] > sensors[:, 1]).long() + (sensors[:, 2] > 0.6).long()
sensors[3] *= 2000  # a glitch of the sensor

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(3):
    opt.zero_grad()
    p = net(sensors)
    loss = F.nll_loss(torch.log(p.clamp_min(1e-6)), labels)
    loss.backward()
    opt.step()
    print("epoch", epoch, "loss", loss.item())
