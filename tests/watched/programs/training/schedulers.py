"""Learning rates by several schedulers, clipping, weight averaging, parameter groups."""
# slow

import torch
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, update_bn

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
biases = [p for p in model.parameters() if p.ndim == 1]
weights = [p for p in model.parameters() if p.ndim > 1]
optimizer = torch.optim.SGD([{"params": weights, "weight_decay": 1e-2}, {"params": biases, "lr": 0.02}], lr=0.05)
warm = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
schedule = lr_scheduler.SequentialLR(optimizer, [warm, cosine], milestones=[3])
average = AveragedModel(model)
x, y = torch.randn(24, 4), torch.randn(24, 1)
for step in range(8):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(set_to_none=step % 2 == 0)
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    average.update_parameters(model)
    print(step, loss.item().hex(), *(rate.hex() for rate in schedule.get_last_lr()))
update_bn([(x,)], average)
average.eval()
with torch.no_grad():
    print(average(x).sum().item().hex())
