"""pytorch-optimizer: losses that are flattened or centred, gradients agreed by PCGrad, one schedule for all."""
# needs: pytorch_optimizer
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from pytorch_optimizer import CosineAnnealingWarmupRestarts, FocalLoss, PCGrad, Ranger21, ScheduleFreeAdamW, centralize_gradient

torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16, 1)).float()


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.SiLU(), torch.nn.Linear(8, 2))


model = network()
shared = PCGrad(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
for step in range(3):
    shared.zero_grad()
    out = model(x)
    tasks = [FocalLoss()(out[:, :1], y), torch.nn.functional.mse_loss(out[:, 1:], x.sum(1, keepdim=True))]
    shared.pc_backward(tasks)
    shared.step()
    print("pcgrad", step, *(task.item().hex() for task in tasks), model[0].weight.grad.norm().item().hex())
model = network()
free = ScheduleFreeAdamW(model.parameters(), lr=1e-2, warmup_steps=2)
for step in range(3):
    free.train()
    free.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, :1], y)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            centralize_gradient(p.grad)
    free.step()
    free.eval()
    with torch.no_grad():
        print("free", step, loss.item().hex(), model(x).norm().item().hex())
model = network()
ranger = Ranger21(model.parameters(), num_iterations=6, lr=1e-2)
for step in range(3):
    ranger.zero_grad()
    loss = torch.nn.functional.smooth_l1_loss(model(x)[:, :1], y)
    loss.backward()
    ranger.step()
    print("ranger21", step, loss.item().hex())
model = network()
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = CosineAnnealingWarmupRestarts(sgd, first_cycle_steps=4, max_lr=0.1, min_lr=0.01, warmup_steps=1)
for step in range(4):
    sgd.zero_grad()
    model(x).square().mean().backward()
    sgd.step()
    schedule.step()
    print("restarts", step, float(sgd.param_groups[0]["lr"]).hex(), model[2].bias.grad.norm().item().hex())
