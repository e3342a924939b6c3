"""Knowledge distillation from a frozen teacher."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 5)).eval()
for p in teacher.parameters():
    p.requires_grad_(False)
student = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5))
opt = torch.optim.Adam(student.parameters(), lr=2e-3)
TEMP, ALPHA = 4.0, 0.7


def kd_loss(s_logits, t_logits, y):
    soft = F.kl_div(  # ALSO
        F.log_softmax(s_logits / TEMP, 1),
        F.log_softmax(t_logits / TEMP, 1),  # BUG non-finite
        # FIX F.softmax(t_logits / TEMP, 1),
        reduction="batchmean",
    )
    return ALPHA * TEMP**2 * soft + (1 - ALPHA) * F.cross_entropy(s_logits, y)


for step in range(6):
    x, y = torch.randn(32, 10), torch.randint(0, 5, (32,))
    with torch.no_grad():
        t = teacher(x)
    loss = kd_loss(student(x), t, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
