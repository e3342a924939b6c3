"""A variational autoencoder of digit images: two losses, and gradients through a random code."""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 128)
        self.mean, self.log_variance = nn.Linear(128, 8), nn.Linear(128, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        hidden = F.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.decoder(latent)), mean, log_variance


def loss_of(image, x, mean, log_variance):
    reconstruction = F.binary_cross_entropy(image, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return (reconstruction + divergence) / len(x)


torch.manual_seed(0)
digits = np.load(Path(__file__).with_name("digits.npz"))
images = torch.tensor(digits["images"], dtype=torch.get_default_dtype()) / 16
loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
batches = (batch for _ in range(100) for batch in loader)
for step, (x,) in zip(range(STEPS), batches):
    image, mean, log_variance = model(x)
    loss = loss_of(image, x, mean, log_variance)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  loss {loss.item():.3f}")

drawn = torch.sigmoid(model.decoder(torch.randn(1, 8))).view(8, 8)
print("\n".join("".join(" .:*#"[int(value * 4.99)] for value in row) for row in drawn.tolist()))
