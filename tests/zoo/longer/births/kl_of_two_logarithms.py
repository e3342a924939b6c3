"""Distillation where both sides are logarithms, and kl_div is not told."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Tiny(nn.Module):
    def __init__(self, vocab=20, d=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(h)


class Distiller:
    def __init__(self, teacher, student, temperature=2.0):
        self.teacher, self.student, self.t = teacher.eval(), student, temperature
        self.kl = nn.KLDivLoss(reduction="batchmean")  # ALSO
        # FIX self.kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
        self.opt = torch.optim.Adam(student.parameters(), lr=1e-3)

    def loss(self, ids):
        with torch.no_grad():
            target = F.log_softmax(self.teacher(ids) / self.t, dim=-1)
        said = F.log_softmax(self.student(ids) / self.t, dim=-1)
        return self.kl(said.flatten(0, 1), target.flatten(0, 1)) * self.t**2  # BUG non-finite

    def step(self, ids):
        loss = self.loss(ids)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


distiller = Distiller(Tiny(d=24), Tiny())
corpus = torch.randint(0, 20, (32, 9))
for epoch in range(2):
    for ids in corpus.split(8):
        value = distiller.step(ids)
    print(epoch, value)
