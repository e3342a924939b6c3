"""Attention without the square root: one key takes it all and the queries learn nothing."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.q.weight, std=1.0)  # ALSO
        # FIX nn.init.normal_(self.q.weight, std=width ** -0.5)
        nn.init.normal_(self.k.weight, std=1.0)  # ALSO
        # FIX nn.init.normal_(self.k.weight, std=width ** -0.5)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)  # ALSO
        # FIX scores = self.q(x) @ self.k(x).transpose(1, 2) / x.size(-1) ** 0.5
        return scores.softmax(dim=-1) @ x  # BUG saturated


attend, out = Attend(48), nn.Linear(48, 1)
opt = torch.optim.SGD([*attend.parameters(), *out.parameters()], lr=0.05)
x = torch.randn(6, 8, 48)
y = x[:, :, 0].mean(dim=1, keepdim=True)
for it in range(3):
    loss = (out(attend(x).mean(dim=1)) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item(), attend.q.weight.grad.norm().item())
