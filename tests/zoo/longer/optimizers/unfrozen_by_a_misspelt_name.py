"""Transfer learning in two phases: the second is to train the whole network."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self, channels=6):
        super().__init__()
        self.stem = nn.Conv1d(2, channels, 3, padding=1)
        self.norm = nn.GroupNorm(2, channels)
        self.mix = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.mix(torch.relu(self.norm(self.stem(x))))).amax(-1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Linear(6, 3)

    def forward(self, x):
        return self.classifier(self.encoder(x))


def set_trainable(module, trainable):
    for name, weight in module.named_parameters():
        if "norm" in name and trainable:
            continue
        if trainable:
            weight.requires_gradient = True  # BUG no-effect
            # FIX weight.requires_grad = True
        else:
            weight.requires_grad = False  # ALSO


def fit(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


x, y = torch.randn(32, 2, 8), torch.randint(0, 3, (32,))
batches = list(zip(x.split(8), y.split(8)))
model = Model()
set_trainable(model.encoder, False)
fit(model, torch.optim.Adam(model.classifier.parameters(), lr=1e-2), batches)
set_trainable(model.encoder, True)
fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), batches)
with torch.no_grad():
    print((model(x).argmax(1) == y).float().mean().item())
