"""Domain adaptation: source classification + target entropy."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)


def make_loader(shift):
    x = torch.randn(64, 10) + shift
    y = (x.sum(1) > 10 * shift).long()
    return DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)


def entropy(logits):
    p = logits.softmax(1)
    return -(p * logits.log_softmax(1)).sum(1).mean()


model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
source, target = make_loader(0.0), make_loader(0.5)

for epoch in range(3):
    for (xs, ys), (xt, _) in zip(source, target):
        optimizer.zero_grad()
        src_loss = F.cross_entropy(model(xs), ys)
        src_loss.backward()

        optimizer.zero_grad()  # BUG cleared-too-early
        # FIX
        tgt_loss = 0.1 * entropy(model(xt))
        tgt_loss.backward()
        optimizer.step()
    print(epoch, src_loss.item(), tgt_loss.item())
