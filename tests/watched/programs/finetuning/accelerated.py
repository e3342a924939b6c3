"""Accelerate: prepare, accumulate, clip, gather, and a state that is saved and loaded."""
# needs: accelerate
# slow

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(3)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for epoch in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(epoch, accelerator.gather(loss.detach()).item().hex(), schedule.get_last_lr()[0].hex())
accelerator.save_state("state", safe_serialization=False)
accelerator.load_state("state")
print(sum(p.sum() for p in model.parameters()).item().hex())
