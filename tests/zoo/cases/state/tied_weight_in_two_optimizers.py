"""A language model whose output shares the embedding's weight."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class LM(nn.Module):
    def __init__(self, words=15, width=8):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Linear(width, width)
        self.decode = nn.Linear(width, words, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, ids):
        return self.decode(torch.tanh(self.mix(self.embed(ids))))


lm = LM()
opt_embed = torch.optim.SGD(lm.embed.parameters(), lr=0.5)  # ALSO
opt_rest = torch.optim.SGD([*lm.mix.parameters(), *lm.decode.parameters()], lr=0.5)  # BUG tied-twice
# FIX opt_rest = torch.optim.SGD(lm.mix.parameters(), lr=0.5)
ids = torch.randint(0, 15, (8, 11))
for step in range(4):
    logits = lm(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    for opt in (opt_embed, opt_rest):
        opt.zero_grad()
    loss.backward()
    opt_embed.step()
    opt_rest.step()  # ALSO
    print(step, loss.item())
