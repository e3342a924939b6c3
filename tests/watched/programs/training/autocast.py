"""Mixed precision on the CPU: autocast in bfloat16, and a GradScaler in float16."""
# slow

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.GELU(), torch.nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
x, y = torch.randn(32, 10), torch.randint(0, 3, (32,))
for dtype in (torch.bfloat16, torch.float16):
    for step in range(4):
        with torch.autocast("cpu", dtype=dtype):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(dtype, step, loss.item().hex(), norm.item().hex(), scaler.get_scale())
