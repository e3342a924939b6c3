"""Tables that are added along the dim they are meant for, in both layouts, and one per sample."""


def train(torch, model, ids, targets):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(ids), targets)
        loss.backward()
        optimizer.step()
    print(loss.item())


def batch_first(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.out = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 3)
            self.pe = torch.nn.Parameter(torch.randn(1, 20, 8) * 0.02)
            layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.enc = torch.nn.TransformerEncoder(layer, 1)

        def forward(self, ids):
            x = self.emb(ids)
            x = x + self.pe[:, : x.size(1)]
            return self.out(self.enc(x).mean(1))

    torch.manual_seed(0)
    train(torch, Model(), torch.randint(0, 9, (6, 5)), torch.randint(0, 3, (6,)))


def length_first(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.out = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 3)
            self.register_buffer("pe", torch.randn(20, 1, 8))
            layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
            self.enc = torch.nn.TransformerEncoder(layer, 1)

        def forward(self, ids):
            x = self.emb(ids).transpose(0, 1)
            x = x + self.pe[: x.size(0)]
            return self.out(self.enc(x).mean(0))

    torch.manual_seed(0)
    train(torch, Model(), torch.randint(0, 9, (6, 5)), torch.randint(0, 3, (6,)))


def turned_for_the_table_only(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.out = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 3)
            self.register_buffer("pe", torch.randn(20, 1, 8))
            self.attn = torch.nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, ids):
            x = self.emb(ids).permute(1, 0, 2)
            x = x + self.pe[: len(x)]
            x = x.permute(1, 0, 2)
            x = x + self.attn(x, x, x)[0]
            return self.out(x.mean(1))

    torch.manual_seed(0)
    train(torch, Model(), torch.randint(0, 9, (6, 5)), torch.randint(0, 3, (6,)))


def class_of_each_sample(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.out = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 3)
            self.kind, self.pos = torch.nn.Embedding(4, 8), torch.nn.Embedding(20, 8)
            self.register_buffer("kinds", torch.tensor([0, 1, 2, 3, 0, 1]))

        def forward(self, ids):
            x = self.emb(ids) + self.kind(self.kinds)[:, None]
            x = x + self.pos(torch.arange(ids.size(1)))
            return self.out(x.mean(1))

    torch.manual_seed(0)
    train(torch, Model(), torch.randint(0, 9, (6, 5)), torch.randint(0, 3, (6,)))
