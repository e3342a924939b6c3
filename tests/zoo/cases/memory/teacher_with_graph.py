"""Semi-supervised learning with a mean teacher."""
import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
x_l, y_l = torch.randn(64, 10), torch.randint(0, 4, (64,))
x_u = torch.randn(128, 10)


def update_teacher(decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data.mul_(decay).add_(s.data, alpha=1 - decay)


def noisy(x):
    return x + 0.1 * torch.randn_like(x)


for step in range(8):
    i, j = torch.randint(0, 64, (16,)), torch.randint(0, 128, (32,))
    supervised = F.cross_entropy(student(x_l[i]), y_l[i])
    soft = F.softmax(teacher(noisy(x_u[j])), dim=1)  # BUG gradients-unused
    # FIX soft = F.softmax(teacher(noisy(x_u[j])).detach(), dim=1)
    consistency = F.mse_loss(F.softmax(student(noisy(x_u[j])), dim=1), soft)
    loss = supervised + 3.0 * consistency
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_teacher(0.99)
    print(step, loss.item())
