"""Ten micro-batches, a step after every fourth: the last two train nothing."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def micro_batches():
    for _ in range(10):
        x = torch.randn(4, 3)
        yield x, x.sum(dim=1, keepdim=True)


model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
every, total = 4, 10
for epoch in range(2):
    optimizer.zero_grad()  # ALSO
    for i, (x, y) in enumerate(micro_batches()):
        size = min(every, total - i // every * every)
        loss = nn.functional.mse_loss(model(x), y) / size
        loss.backward()  # ALSO
        if (i + 1) % every == 0:  # BUG batches-lost
        # FIX if (i + 1) % every == 0 or i + 1 == total:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, loss.item())
