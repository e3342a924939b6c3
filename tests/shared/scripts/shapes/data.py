"""Drawn shapes: discs, squares and crosses, each made anew from its number."""

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler, Subset

SIZE = 16
SHAPES = ("disc", "square", "cross")


class Shapes(Dataset):
    def __init__(self, count: int, seed: int):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        label = index % len(SHAPES)
        centre = torch.rand(2, generator=generator) * 6 + 5
        radius = torch.rand((), generator=generator).item() * 2 + 2.5
        image = draw(SHAPES[label], centre, radius)
        return image + 0.1 * torch.randn(image.shape, generator=generator), label


def draw(shape, centre, radius):
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    dy, dx = (rows - centre[0]).abs(), (columns - centre[1]).abs()
    if shape == "disc":
        inside = dy**2 + dx**2 <= radius**2
    elif shape == "square":
        inside = torch.maximum(dy, dx) <= radius
    else:
        inside = (torch.minimum(dy, dx) <= 1) & (torch.maximum(dy, dx) <= radius)
    return inside.float()[None]


def flipped(batch):
    """Collates, and turns every other image around."""
    images = torch.stack([image for image, _ in batch])
    images[::2] = images[::2].flip(-1)
    return images, torch.tensor([label for _, label in batch])


def started(worker):
    torch.manual_seed(torch.initial_seed() % 2**31 + worker)


def loaders(config, rank=0, world=1):
    everything = Shapes(config.samples, config.seed)
    held_out = max(config.samples // 4, 1)
    training = Subset(everything, range(held_out, config.samples))
    testing = Subset(everything, range(held_out))
    if world > 1:
        sampler = DistributedSampler(training, world, rank, seed=config.seed)
    else:
        sampler = RandomSampler(training, generator=torch.Generator().manual_seed(config.seed))
    usual = {
        "batch_size": config.batch_size,
        "num_workers": config.workers,
        "worker_init_fn": started,
        "persistent_workers": config.workers > 0,
    }
    train = DataLoader(training, sampler=sampler, collate_fn=flipped, drop_last=True, **usual)
    return train, DataLoader(testing, **usual)
