import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.bn = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.3)
        self.fc2 = nn.Linear(32, 2)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.bn(self.fc1(x)))))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()  # BUG mode-left
    hits = (model(x).argmax(dim=1) == y).float().mean().item()
    # ADD model.train()
    return hits


train_x, test_x = torch.randn(48, 8), torch.randn(16, 8)
rule = torch.randn(8)
train_y, test_y = (train_x @ rule > 0).long(), (test_x @ rule > 0).long()
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for xb, yb in zip(train_x.split(16), train_y.split(16)):
        optimizer.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        optimizer.step()
    print(epoch, accuracy(model, test_x, test_y))
