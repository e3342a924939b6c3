"""The barrier after saving is indented one level too far."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, every):
        self.rank = dist.get_rank()
        torch.manual_seed(self.rank)
        self.model = DDP(nn.GRU(6, 12, batch_first=True))
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)
        self.every = every

    def step(self):
        x = torch.randn(4, 9, 6)
        self.optimizer.zero_grad()
        out, _ = self.model(x)
        loss = (out.mean(2) - x.mean(2)).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def save(self, step):
        if self.rank == 0:  # BUG collective-on-some-ranks
            torch.save(self.model.module.state_dict(), f"step{step}.pt")
            dist.barrier()  # ALSO
            # FIX
        # ADD dist.barrier()

    def fit(self, steps):
        for step in range(1, steps + 1):
            loss = self.step()
            if step % self.every == 0:
                self.save(step)
        print(f"rank {self.rank}: {loss:.4f}", flush=True)


dist.init_process_group("gloo", timeout=timedelta(seconds=10))
trainer = Trainer(every=2)
trainer.fit(5)
dist.destroy_process_group()
