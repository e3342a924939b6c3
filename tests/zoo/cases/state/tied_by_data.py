"""A language model that shares its embedding with its output layer."""
import torch
from torch import nn

torch.manual_seed(0)


class TiedLM(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.Linear(dim, vocab, bias=False)
        self.decoder.weight.data = self.embed.weight.data  # BUG tied-twice
        # FIX self.decoder.weight = self.embed.weight

    def forward(self, tokens):
        out, _ = self.rnn(self.embed(tokens))
        return self.decoder(out)


model = TiedLM()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
corpus = torch.randint(0, 20, (16, 12))
for epoch in range(4):
    for part in corpus.split(8):
        logits = model(part[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 20), part[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
