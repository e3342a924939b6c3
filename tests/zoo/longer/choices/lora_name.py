import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=4, alpha=8):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) * 0.02)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_A.t() @ self.lora_B.t())


class TinyEncoder(nn.Module):
    def __init__(self, vocab=40, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.classifier = nn.Linear(d, 2)

    def forward(self, ids):
        x = self.emb(ids)
        att = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / x.size(-1) ** 0.5, -1)
        return self.classifier((att @ self.v(x)).mean(1))


torch.manual_seed(0)
model = TinyEncoder()
model.q = LoRALinear(model.q)
model.v = LoRALinear(model.v)

for name, p in model.named_parameters():
    p.requires_grad = "lora." in name or "classifier" in name  # BUG matches-no-name
    # FIX p.requires_grad = "lora_" in name or "classifier" in name

trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-3)
ids = torch.randint(0, 40, (64, 12))
labels = (ids[:, 0] > 20).long()
for epoch in range(3):
    for b in range(0, 64, 16):
        loss = F.cross_entropy(model(ids[b : b + 16]), labels[b : b + 16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
