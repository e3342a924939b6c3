"""Mixed precision with a gradient scaler."""
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for step in range(4):
    x = torch.randn(16, 8)
    y = x.pow(2).sum(1, keepdim=True)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float(), y)
    scaled = scaler.scale(loss)
    loss.backward()  # BUG not-scaled
    # FIX scaled.backward()
    scaler.step(opt)  # ALSO
    scaler.update()
