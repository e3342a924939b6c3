"""`loss.requires_grad_()` made the error go away, and the training with it."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def accuracy_loss(logits, labels):
    hits = (logits.argmax(dim=1) == labels).float()  # ALSO
    # FIX hits = torch.softmax(logits, dim=1)[torch.arange(len(labels)), labels]
    return (1.0 - hits.mean()).requires_grad_()  # BUG graph-cut
    # FIX return 1.0 - hits.mean()


net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
sgd = torch.optim.SGD(net.parameters(), lr=0.2)
x = torch.randn(40, 4)
labels = x[:, :3].argmax(dim=1)
for epoch in range(4):
    sgd.zero_grad()
    loss = accuracy_loss(net(x), labels)
    loss.backward()
    sgd.step()
    print(epoch, loss.item())
