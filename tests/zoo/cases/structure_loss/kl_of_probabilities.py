import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

encoder = nn.Linear(6, 16)
topics = nn.Linear(16, 5)
opt = torch.optim.Adam([*encoder.parameters(), *topics.parameters()], lr=0.01)
docs = torch.rand(24, 6)
prior = torch.softmax(docs @ torch.randn(6, 5) * 2, dim=1)

for it in range(4):
    q = F.softmax(topics(torch.relu(encoder(docs))), dim=1)  # ALSO
    # FIX log_q = F.log_softmax(topics(torch.relu(encoder(docs))), dim=1)
    loss = F.kl_div(q, prior, reduction="batchmean")  # BUG wrong-loss-input
    # FIX loss = F.kl_div(log_q, prior, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
