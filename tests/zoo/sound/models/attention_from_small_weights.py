"""A small encoder that begins as BERT does: attention is even at first, queries learn slowly."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(d, d) for _ in range(3))
        self.dense = nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            f(x).view(b, t, self.heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = self.norm1(x + self.dense(mixed))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, vocab=60, d=16):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, d), nn.Embedding(12, d)
        self.norm = nn.LayerNorm(d)
        self.layers = nn.Sequential(Layer(d, 2), Layer(d, 2))
        self.pooler, self.classifier = nn.Linear(d, d), nn.Linear(d, 2)
        self.apply(self.begin)

    @staticmethod
    def begin(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        return self.classifier(torch.tanh(self.pooler(self.layers(x)[:, 0])))


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for step in range(4):
    ids = torch.randint(0, 60, (8, 10))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids), ids[:, 0] % 2)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
