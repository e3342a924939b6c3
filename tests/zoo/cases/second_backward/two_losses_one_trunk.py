"""Two tasks share a trunk; each loss calls backward for itself."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

trunk = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
age, sex = nn.Linear(16, 1), nn.Linear(16, 2)
params = [p for m in (trunk, age, sex) for p in m.parameters()]
optimizer = torch.optim.Adam(params, lr=0.01)

x = torch.randn(20, 5)
years, kind = torch.rand(20, 1), torch.randint(0, 2, (20,))

for epoch in range(3):
    shared = trunk(x)
    loss_age = F.mse_loss(age(shared), years)
    loss_sex = F.cross_entropy(sex(shared), kind)
    optimizer.zero_grad()
    loss_age.backward()  # ALSO
    # FIX (loss_age + loss_sex).backward()
    loss_sex.backward()  # BUG second-backward
    # FIX
    optimizer.step()
    print(epoch, loss_age.item(), loss_sex.item())
