import torch
import torch.nn as nn

torch.manual_seed(0)
scorer = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(scorer.parameters(), lr=1e-2)


def spearman_loss(pred, target):
    rank_p = pred.argsort().argsort().float()  # BUG graph-cut
    # FIX rank_p = torch.sigmoid((pred[:, None] - pred[None, :]) / 0.1).sum(1)
    rank_t = target.argsort().argsort().float()
    rank_p = rank_p - rank_p.mean()
    rank_t = rank_t - rank_t.mean()
    return 1 - (rank_p * rank_t).sum() / (rank_p.norm() * rank_t.norm())


for step in range(4):
    x = torch.randn(20, 5)
    y = x[:, 0] - 0.5 * x[:, 1]
    loss = spearman_loss(scorer(x).squeeze(1), y)
    # a plain l2 term keeps the scores bounded
    loss = loss + 1e-3 * sum(p.pow(2).sum() for p in scorer.parameters())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
