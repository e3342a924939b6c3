"""Self-distillation: the teacher's outputs are centred by a running mean."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Centred(nn.Module):
    def __init__(self, out, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(1, out))

    def forward(self, student, teacher):
        target = F.softmax((teacher.detach() - self.center) / 0.04, dim=-1)
        return -(target * F.log_softmax(student / 0.1, dim=-1)).sum(-1).mean()

    @torch.no_grad()
    def update(self, teacher):
        batch = teacher.mean(dim=0, keepdim=True)
        self.center = (1 - self.momentum) * self.center + self.momentum * batch  # BUG averaged-the-wrong-way
        # FIX self.center = self.momentum * self.center + (1 - self.momentum) * batch


torch.manual_seed(0)
student = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 8))
teacher = copy.deepcopy(student).requires_grad_(False)
criterion = Centred(8)
opt = torch.optim.AdamW(student.parameters(), lr=1e-3)
for step in range(8):
    x = torch.randn(32, 12)
    one, other = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    with torch.no_grad():
        target = teacher(other)
    loss = criterion(student(one), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    criterion.update(target)
    with torch.no_grad():
        for mine, its in zip(teacher.parameters(), student.parameters()):
            mine.mul_(0.996).add_(its, alpha=0.004)
    print(step, loss.item())
