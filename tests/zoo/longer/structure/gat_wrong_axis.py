"""Graph attention with an additive score and a dense adjacency."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GAT(nn.Module):
    def __init__(self, f_in, f_out):
        super().__init__()
        self.W = nn.Linear(f_in, f_out, bias=False)
        self.src = nn.Linear(f_out, 1, bias=False)
        self.dst = nn.Linear(f_out, 1, bias=False)

    def forward(self, x, adj):
        h = self.W(x)
        e = F.leaky_relu(self.src(h) + self.dst(h).T, 0.2)
        e = e.masked_fill(adj == 0, float("-inf"))
        attn = F.softmax(e, dim=0)  # BUG wrong-dim
        # FIX attn = F.softmax(e, dim=1)
        return attn @ h


torch.manual_seed(0)
n = 14
adj = torch.eye(n)
for i in range(n):
    adj[i, (i + 1) % n] = 1
    adj[i, (i * 3) % n] = 1
x, labels = torch.randn(n, 8), torch.arange(n) % 2
l1, l2 = GAT(8, 16), GAT(16, 2)
opt = torch.optim.Adam([*l1.parameters(), *l2.parameters()], lr=0.01)
for epoch in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(l2(F.elu(l1(x, adj)), adj), labels)
    loss.backward()
    opt.step()
