"""A teacher that follows the student: its weights are taken from the student's state."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MeanTeacher:
    def __init__(self, student, momentum=0.95):
        self.momentum = momentum
        self.slow = {k: v for k, v in student.state_dict().items()}  # BUG not-a-copy
        # FIX self.slow = {k: v.clone() for k, v in student.state_dict().items()}

    def follow(self, student):
        for key, value in student.state_dict().items():
            if value.dtype.is_floating_point:
                slow = self.slow[key]
                slow.mul_(self.momentum).add_(value, alpha=1 - self.momentum)  # ALSO
            else:
                self.slow[key].copy_(value)

    @torch.no_grad()
    def predict(self, student, x):
        return torch.func.functional_call(student, self.slow, (x,)).softmax(-1)


student = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))
teacher = MeanTeacher(student)
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
x = torch.randn(48, 8)
y = x[:, :4].argmax(1)
for epoch in range(3):
    for xb, yb in zip(x.split(16), y.split(16)):
        out = student(xb + 0.1 * torch.randn_like(xb))
        target = teacher.predict(student, xb)
        loss = F.cross_entropy(out, yb) + F.kl_div(out.log_softmax(-1), target, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teacher.follow(student)
    print(epoch, loss.item())
