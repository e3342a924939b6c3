"""A dataset whose items are drawn anew each time they are asked for, each by a seed of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, item: int):
        generator = torch.Generator().manual_seed(item)
        phase = torch.rand(1, generator=generator)
        return torch.sin(torch.linspace(0, 6, 8) + phase), phase


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for wave, phase in DataLoader(Waves(), batch_size=4, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(wave), phase)
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.4f}")
