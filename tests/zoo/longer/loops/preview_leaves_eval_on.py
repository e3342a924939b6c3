"""A translator writes a preview every few batches, and stays in eval mode."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Seq2Seq(nn.Module):
    def __init__(self, vocab=14, d=16):
        super().__init__()
        self.src = nn.Embedding(vocab, d)
        self.tgt = nn.Embedding(vocab, d)
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.GRU(d, d, batch_first=True)
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, src, tgt):
        _, state = self.encoder(self.drop(self.src(src)))
        h, _ = self.decoder(self.drop(self.tgt(tgt)), state)
        return self.out(self.drop(h))

    @torch.no_grad()
    def preview(self, src, length=4):
        self.eval()  # BUG mode-left
        tgt = torch.zeros(len(src), 1, dtype=torch.long)
        for _ in range(length):
            tgt = torch.cat([tgt, self(src, tgt)[:, -1:].argmax(-1)], dim=1)
        # ADD self.train()
        return tgt[:, 1:].tolist()


class Experiment:
    def __init__(self):
        self.model = Seq2Seq()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.loss = nn.CrossEntropyLoss()

    def run(self, batches):
        self.model.train()
        for step, (src, tgt) in enumerate(batches):
            logits = self.model(src, tgt[:, :-1])
            loss = self.loss(logits.transpose(1, 2), tgt[:, 1:])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if step % 3 == 0:
                print(step, loss.item(), self.model.preview(src[:1]))


data = torch.randint(1, 14, (8, 6, 5))
Experiment().run([(src, src.flip(1)) for src in data])
