"""Knowledge distillation; the optimizer was given the teacher."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(8, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, 4)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def pretrain(model, x, y, steps=5):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model


def distill(student, teacher, x, y, T=3.0, alpha=0.7, steps=4):
    teacher.eval()
    optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-3)  # BUG not-in-optimizer
    # FIX optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for step in range(steps):
        with torch.no_grad():
            teacher_logits = teacher(x)
        student_logits = student(x)
        soft = F.kl_div(
            F.log_softmax(student_logits / T, dim=1),
            F.softmax(teacher_logits / T, dim=1),
            reduction="batchmean",
        ) * (T * T)
        hard = F.cross_entropy(student_logits, y)
        loss = alpha * soft + (1 - alpha) * hard
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


x = torch.randn(64, 8)
y = x[:, :4].argmax(dim=1)
distill(Net(8), pretrain(Net(32), x, y), x, y)
