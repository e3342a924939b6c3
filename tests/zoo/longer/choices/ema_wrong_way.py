"""Mean teacher: the teacher is a moving average of the student."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.1)


@torch.no_grad()
def update_teacher(decay=0.99):
    for t, s in zip(teacher.parameters(), student.parameters()):
        s.mul_(1 - decay).add_(t, alpha=decay)  # BUG averaged-the-wrong-way
        # FIX t.mul_(decay).add_(s, alpha=1 - decay)


for step in range(8):
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    noisy = x + 0.1 * torch.randn_like(x)
    logits = student(x)
    with torch.no_grad():
        target = teacher(noisy).softmax(1)
    loss = F.cross_entropy(logits, y) + F.mse_loss(logits.softmax(1), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_teacher()
    print(step, loss.item())
