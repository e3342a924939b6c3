"""Weight tying in a tiny language model."""
import torch
import torch.nn as nn


class LM(nn.Module):
    def __init__(self, vocab=30, d=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.mix = nn.Linear(d, d)
        self.decoder = nn.Linear(d, vocab, bias=False)
        self.decoder.weight = nn.Parameter(self.embed.weight)  # BUG tied-twice
        # FIX self.decoder.weight = self.embed.weight

    def forward(self, ids):
        return self.decoder(torch.tanh(self.mix(self.embed(ids))))


torch.manual_seed(0)
lm = LM()
optim = torch.optim.Adam(lm.parameters(), lr=1e-3)
for step in range(5):
    ids = torch.randint(0, 30, (4, 9))
    logits = lm(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 30), ids[:, 1:].reshape(-1))
    optim.zero_grad()
    loss.backward()
    optim.step()
