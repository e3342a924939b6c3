import torch
import torch.nn as nn

torch.manual_seed(0)

lstm = nn.LSTM(2, 12, batch_first=True)
proj = nn.Linear(12, 2)
params = list(lstm.parameters()) + list(proj.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)
walk = torch.randn(6, 15, 2).cumsum(dim=1) * 0.3

for step in range(4):
    hidden, _ = lstm(walk[:, :-1])
    loss = (proj(hidden) - walk[:, 1:]).pow(2).mean()
    optimizer.zero_grad()
    torch.nn.utils.clip_grad_norm_(params, 0.1)  # BUG clipped-at-the-wrong-time
    # FIX
    loss.backward()
    # ADD torch.nn.utils.clip_grad_norm_(params, 0.1)
    optimizer.step()
    print(step, loss.item())
