"""All pairwise squared distances, by an (N, N, D) tensor that backward keeps."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def sq_dists(a, b):
    diff = a.unsqueeze(1) - b.unsqueeze(0)
    # FIX
    return (diff ** 2).sum(dim=-1)  # BUG saved-needlessly
    # FIX return a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.t()


class Kernel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Linear(10, dim)
        self.log_width = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        e = self.embed(x)
        return torch.exp(-sq_dists(e, e) / (2 * self.log_width.exp()))  # ALSO


kernel = Kernel(64)
opt = torch.optim.Adam(kernel.parameters(), lr=1e-3)
x = torch.randn(150, 10)
same = (x[:, :1] * x[:, :1].t() > 0).float()
for step in range(3):
    loss = (kernel(x) - same).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
