"""A long sum in half precision stops growing; nothing becomes infinite."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def pooled(frames):
    total = torch.zeros(frames.size(0), frames.size(2), dtype=torch.float16)  # BUG dtype-creep
    # FIX total = torch.zeros(frames.size(0), frames.size(2))
    for t in range(frames.size(1)):
        total = total + frames[:, t].half()  # ALSO
        # FIX total = total + frames[:, t]
    return total.float() / frames.size(1)  # ALSO
    # FIX return total / frames.size(1)


front, back = nn.Linear(3, 6), nn.Linear(6, 1)
opt = torch.optim.Adam([*front.parameters(), *back.parameters()], lr=0.01)
clips = torch.rand(8, 60, 3)
score = clips.mean(dim=(1, 2)).unsqueeze(1) * 4
for it in range(3):
    out = back(pooled(torch.relu(front(clips)) + 1.0))
    loss = nn.functional.mse_loss(out, score)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
