import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optim = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def fit(self, x, y, epochs):
        for epoch in range(epochs):
            loss = F.cross_entropy(self.model(x), y)
            # ADD self.optim.zero_grad()
            loss.backward()
            self.optim.zero_grad()  # BUG cleared-too-early
            # FIX
            self.optim.step()  # ALSO
            print(epoch, loss.item())


features = torch.randn(36, 5)
labels = (features[:, 0] > features[:, 1]).long()
Trainer(nn.Linear(5, 2), lr=0.1).fit(features, labels, epochs=4)
