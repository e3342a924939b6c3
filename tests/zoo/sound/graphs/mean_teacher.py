import copy

import torch
import torch.nn as nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
teacher = copy.deepcopy(student).requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(20, 5)
    with torch.no_grad():
        soft = teacher(x + 0.05 * torch.randn_like(x)).softmax(dim=1)
    logits = student(x)
    loss = nn.functional.cross_entropy(logits, x[:, :3].argmax(dim=1))
    loss = loss + (logits.softmax(dim=1) - soft).pow(2).sum(dim=1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(0.9).add_(0.1 * fast)
    print(step, loss.item())
