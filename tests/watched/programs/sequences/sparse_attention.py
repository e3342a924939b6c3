"""entmax: attention whose weights are exactly zero where it does not look, with an exponent that is learned."""
# needs: entmax

import torch
from entmax import Entmax15Loss, entmax15, entmax_bisect, sparsemax, sparsemax_loss

torch.manual_seed(0)


class Sparse(torch.nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.embed = torch.nn.Embedding(12, size)
        self.join = torch.nn.Linear(size, 3 * size)
        self.exponent = torch.nn.Parameter(torch.zeros(1))
        self.head = torch.nn.Linear(size, 4)

    def forward(self, ids, weigh):
        query, key, value = self.join(self.embed(ids)).chunk(3, -1)
        scores = query @ key.mT
        alpha = 1.05 + self.exponent.sigmoid() * 0.9
        weights = {"sparsemax": lambda: sparsemax(scores, -1), "entmax15": lambda: entmax15(scores, -1), "bisect": lambda: entmax_bisect(scores, alpha.expand(*scores.shape[:-1], 1))}[weigh]()
        return self.head((weights @ value).mean(1)), (weights == 0).float().mean()


model = Sparse()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
ids, y = torch.randint(0, 12, (5, 6)), torch.randint(0, 4, (5,))
for step, weigh in enumerate(["sparsemax", "entmax15", "bisect", "bisect"]):
    out, zeros = model(ids, weigh)
    loss = Entmax15Loss()(out, y) if step % 2 else sparsemax_loss(out, y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(weigh, loss.item().hex(), zeros.item().hex(), model.join.weight.grad.norm().item().hex(), model.exponent.grad is not None)
