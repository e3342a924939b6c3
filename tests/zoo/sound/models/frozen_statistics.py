"""Fine-tuning with batch norm held in eval mode, as detectors do."""
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)


def train_mode(model):
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


for _ in range(3):
    train_mode(net)
    x = torch.rand(4, 1, 6, 6)
    loss = nn.functional.cross_entropy(net(x), (x.mean(dim=(1, 2, 3)) > 0.5).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
