"""The AverageMeter of many repositories, given the loss itself."""

from collections import defaultdict

import torch
import torch.nn as nn

torch.manual_seed(0)


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n  # BUG graph-grows
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 18), nn.BatchNorm1d(18), nn.ReLU())
        self.classifier = nn.Linear(18, 4)

    def forward(self, x):
        return self.classifier(self.features(x))


def accuracy(output, target):
    return (output.argmax(dim=1) == target).float().mean()


def train(loader, model, criterion, optimizer, epoch):
    meters = defaultdict(AverageMeter)
    model.train()
    for i, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        meters["loss"].update(loss, len(images))  # ALSO
        # FIX meters["loss"].update(loss.item(), len(images))
        meters["acc"].update(accuracy(output, target).item(), len(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, float(meters["loss"].avg), meters["acc"].avg)


x = torch.randn(64, 6)
y = x[:, :4].argmax(1)
loader = list(zip(x.split(8), y.split(8)))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for epoch in range(2):
    train(loader, model, nn.CrossEntropyLoss(), optimizer, epoch)
