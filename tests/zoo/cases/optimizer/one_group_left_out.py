import torch
import torch.nn as nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 30)

    def forward(self, tokens):
        return self.fc(self.norm(self.embed(tokens)))


def param_groups(model, decay=0.01):
    decayed, plain = [], []
    for name, p in model.named_parameters():
        if name.endswith("bias") or name.startswith("norm"):
            plain.append(p)
        elif name.startswith("fc"):  # BUG not-in-optimizer
        # FIX else:
            decayed.append(p)
    return [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


model = Model()
optimizer = torch.optim.AdamW(param_groups(model), lr=5e-3)  # ALSO
tokens = torch.randint(0, 30, (16, 9))
for step in range(4):
    optimizer.zero_grad()
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    print(step, loss.item())
