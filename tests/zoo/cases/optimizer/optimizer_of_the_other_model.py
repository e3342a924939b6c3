"""Distillation: a small student learns from a trained teacher."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def mlp(width):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


def distill(teacher, student, batches, temperature=2.0):
    optimizer = torch.optim.Adam(teacher.parameters(), lr=0.01)  # BUG not-in-optimizer
    # FIX optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
    for x in batches:
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, dim=1)
        optimizer.zero_grad()
        loss = F.kl_div(F.log_softmax(student(x) / temperature, dim=1), soft, reduction="batchmean")
        loss.backward()
        optimizer.step()  # ALSO
        yield loss.item()


big, small = mlp(64), mlp(8)
big.eval()
for value in distill(big, small, torch.randn(4, 16, 4)):
    print(f"{value:.5f}")
