"""ResNet-18 learns to read digits by SGD with momentum and weight decay; then it is tested."""

import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100


class Block(nn.Module):
    def __init__(self, planes_in, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        nn.init.zeros_(self.bn2.weight)  # every block begins as its shortcut
        self.shortcut = nn.Identity()
        if stride != 1 or planes_in != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        out += self.shortcut(x)
        return F.relu(out)


torch.manual_seed(0)
digits = np.load(Path(__file__).with_name("digits.npz"))
labels = torch.tensor(digits["labels"]).long()
images = torch.tensor(digits["images"], dtype=torch.get_default_dtype()).view(-1, 1, 8, 8) / 16
images = images.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
train, test = random_split(TensorDataset(images, labels), [1500, 297])
stem = {"conv1": nn.Conv2d(1, 64, 3, 1, 1, bias=False), "bn1": nn.BatchNorm2d(64)}
model = nn.Sequential(OrderedDict(stem, relu=nn.ReLU()))
for number, stride in enumerate((1, 2, 2, 2), 1):
    first, last = 64 * 2 ** max(number - 2, 0), 32 * 2**number
    blocks = Block(first, last, stride), Block(last, last, 1)
    model.add_module(f"layer{number}", nn.Sequential(*blocks))
model.pool, model.flatten, model.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
epochs = (batch for _ in range(100) for batch in DataLoader(train, batch_size=32, shuffle=True))
for step, (x, y) in zip(range(STEPS), epochs):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=99))
print(f"accuracy {right / len(test):.2f}")
