import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        logits = self.fc(x)
        return logits, F.softmax(logits, dim=1)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.2)
x = torch.randn(20, 5)
y = x[:, :3].argmax(dim=1)
for _ in range(4):
    logits, probs = net(x)
    loss = F.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item(), probs.max(dim=1).values.mean().item())
