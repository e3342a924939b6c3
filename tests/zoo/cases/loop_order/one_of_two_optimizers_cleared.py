import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
classifier = nn.Linear(16, 3)
enc_opt = torch.optim.SGD(encoder.parameters(), lr=0.02)
cls_opt = torch.optim.SGD(classifier.parameters(), lr=0.1)


def update(loss):
    cls_opt.zero_grad()  # ALSO
    # ADD enc_opt.zero_grad()
    loss.backward()  # BUG gradients-add-up
    enc_opt.step()  # ALSO
    cls_opt.step()


for step in range(5):
    x = torch.randn(24, 8)
    y = x[:, :3].argmax(dim=1)
    loss = F.cross_entropy(classifier(encoder(x)), y)
    update(loss)
    print(step, loss.item())
