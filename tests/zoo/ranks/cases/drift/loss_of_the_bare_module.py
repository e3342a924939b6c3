"""The loss is computed by the module inside of DDP, so nothing averages its gradients."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class LanguageModel(nn.Module):
    def __init__(self, vocab=40, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)

    def loss(self, tokens):
        logits = self(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(LanguageModel())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(5):
    tokens = torch.randint(0, 40, (4, 12))
    optimizer.zero_grad()
    loss = model.module.loss(tokens)  # BUG replicas-differ
    # FIX logits = model(tokens[:, :-1])
    # FIX loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()  # ALSO
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
