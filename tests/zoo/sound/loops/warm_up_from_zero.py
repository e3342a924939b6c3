import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.Linear(20, 3))
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, step / 4))
for step in range(8):
    x = torch.randn(16, 6)
    loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(dim=1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    print(step, sched.get_last_lr(), loss.item())
