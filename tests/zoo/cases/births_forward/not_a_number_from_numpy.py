"""A column of a table holds a missing value, which is scaled before a model gets it."""

import numpy as np
import torch

torch.manual_seed(0)


def table(rows):
    found = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    found[4, 1] = np.nan
    # FIX found[4, 1] = 0
    return found


def loaded(rows):
    x = torch.from_numpy(table(rows))  # BUG non-finite
    return (x - x.mean(0)) / x.std(0)


model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = model(loaded(16)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
