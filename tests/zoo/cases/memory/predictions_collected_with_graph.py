import torch
import torch.nn as nn

torch.manual_seed(0)


def predict(model, loader):
    model.eval()
    out = []
    for batch in loader:
        out.append(model(batch))  # BUG graph-unused
        # FIX with torch.no_grad():
        # FIX     out.append(model(batch))
    model.train()
    return torch.cat(out)


model = nn.Sequential(nn.Linear(9, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
train = torch.randn(40, 9)
target = train[:, :3].sum(dim=1, keepdim=True)
for epoch in range(3):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(train), target)
    loss.backward()
    opt.step()
    print(epoch, loss.item())

scores = predict(model, torch.randn(6, 30, 9))
print(scores.shape, scores.mean().item())
