"""A language model writes a few words between training steps, and keeps their graph."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class CharModel(nn.Module):
    def __init__(self, n=12, d=16):
        super().__init__()
        self.table = nn.Embedding(n, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, n)

    def forward(self, tokens, state=None):
        h, state = self.rnn(self.table(tokens), state)
        return self.out(h), state

    # ADD @torch.no_grad()
    def write(self, start, count):
        token, state, text = start, None, []
        for _ in range(count):
            logits, state = self(token, state)  # BUG graph-unused
            token = logits[:, -1].argmax(dim=-1, keepdim=True)
            text.append(token.item())
        self.state = state  # ALSO
        return text


model = CharModel()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
tokens = (torch.arange(10).repeat(4, 1) + torch.arange(4).unsqueeze(1)) % 12
for step in range(3):
    logits, _ = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item(), model.write(torch.zeros(1, 1, dtype=torch.long), 5))
