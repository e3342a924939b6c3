"""A transformer of torch.nn with masks, tied weights, label smoothing and gradient accumulation."""
# slow

import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True), 2)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.body(self.embed(ids), mask=mask, is_causal=True))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
for step in range(3):
    optimizer.zero_grad()
    for _ in range(2):
        ids = torch.randint(0, 30, (4, 9))
        loss = loss_of(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()) / 2
        loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item().hex(), norm.item().hex())
