import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def rescale(grad):
    norm = grad.norm(dim=1, keepdim=True)
    return grad / norm  # BUG non-finite
    # FIX return grad / norm.clamp_min(1e-8)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 20)
        self.head = nn.Linear(20, 3)

    def forward(self, x):
        h = F.relu(self.stem(x))
        if h.requires_grad:
            h.register_hook(rescale)
        return self.head(h)


x = torch.randn(10, 6)
y = torch.randint(0, 3, (10,))
weight = torch.ones(10)
weight[6] = 0.0  # not labelled yet

clf = Classifier()
sgd = torch.optim.SGD(clf.parameters(), lr=0.01)
for epoch in range(3):
    sgd.zero_grad()
    loss = (F.cross_entropy(clf(x), y, reduction="none") * weight).sum() / weight.sum()
    loss.backward()
    sgd.step()
    print(epoch, round(loss.item(), 4))
