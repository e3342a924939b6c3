"""The learning rate follows the share of tokens that a rank has consumed, which differs by rank."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Classifier(nn.Module):
    def __init__(self, vocab=50, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.out = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.out(self.embed(tokens).sum(1))


def packed(rank, generator):
    """Conversations of random lengths, padded to the same width."""
    tokens = torch.zeros(4, 16, dtype=torch.long)
    lengths = torch.randint(4, 9, (4,), generator=generator) + 5 * rank
    for row, length in zip(tokens, lengths.tolist()):
        row[:length] = torch.randint(1, 50, (length,), generator=generator)
    return tokens, int(lengths.sum())


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
generator = torch.Generator().manual_seed(rank)
model = DDP(Classifier())
base_lr, budget, seen = 0.5, 600, 0
optimizer = torch.optim.SGD(model.parameters(), lr=base_lr)
for step in range(6):
    tokens, count = packed(rank, generator)
    seen += count
    progress = min(seen / budget, 1.0)  # ALSO
    # FIX shared = torch.tensor(float(seen))
    # FIX dist.all_reduce(shared, dist.ReduceOp.MAX)
    # FIX progress = min(shared.item() / budget, 1.0)
    for group in optimizer.param_groups:
        group["lr"] = base_lr * (1 - progress)  # BUG lr-by-rank
    labels = (tokens[:, 0] > 25).long()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(tokens), labels).backward()
    optimizer.step()  # ALSO
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
