"""The sampler is not told which epoch it is, so each epoch has the same order."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
signal = torch.randn(64, 3, 16)
dataset = TensorDataset(torch.arange(64), signal, signal.mean((1, 2)))
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
model = DDP(nn.Sequential(nn.Conv1d(3, 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(48, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):  # BUG same-order
    # ADD sampler.set_epoch(epoch)
    order = []
    for index, inputs, targets in loader:  # ALSO
        order += index.tolist()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs).squeeze(1), targets)
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: epoch {epoch} begins with {order[:4]}")
dist.destroy_process_group()
