"""SimCLR-like training; embeddings are brought to length one by hand."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)


class Projector(nn.Module):
    def __init__(self, dims):
        super().__init__()
        layers = []
        for a, b in zip(dims[:-1], dims[1:]):
            layers += [nn.Linear(a, b), nn.ReLU(inplace=True)]
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


class Contrastive(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.projector = Projector([16, 8, 3])
        self.temperature = temperature

    def embed(self, x):
        z = self.projector(self.encoder(x))
        return z / z.norm(dim=1, keepdim=True)  # BUG non-finite
        # FIX return F.normalize(z, dim=1, eps=1e-6)

    def forward(self, a, b):
        za, zb = self.embed(a), self.embed(b)
        logits = za @ zb.t() / self.temperature
        targets = torch.arange(len(a))
        return 0.5 * (F.cross_entropy(logits, targets) + F.cross_entropy(logits.t(), targets))


def augment(x, strength=0.1):
    return x + strength * torch.randn_like(x)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.history = []

    def step(self, batch):
        loss = self.model(augment(batch), augment(batch))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.history.append(loss.item())


data = torch.randn(64, 10)
trainer = Trainer(Contrastive(), lr=0.05)
for epoch in range(2):
    for batch in data.split(16):
        trainer.step(batch)
    print(epoch, trainer.history[-4:])
