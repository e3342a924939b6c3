"""A DataLoader with two workers, a sampler and a seeded generator, for two epochs."""

import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, get_worker_info


class Noise(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        assert get_worker_info() is not None
        x = torch.full((3,), float(index)) / 32
        return x, x.sum(0, keepdim=True).sin()


if __name__ == "__main__":
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(7)
    sampler = WeightedRandomSampler([1.0] * 32, 32, generator=generator)
    loader = DataLoader(Noise(), batch_size=8, sampler=sampler, num_workers=2, persistent_workers=True)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item().hex(), model.weight.grad.norm().item().hex())
