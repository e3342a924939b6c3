"""Feature extractor and head are two modules; only one of them is told about evaluation."""
import torch
import torch.nn as nn

torch.manual_seed(0)

extractor = nn.Sequential(nn.Linear(5, 20), nn.BatchNorm1d(20), nn.ReLU())
head = nn.Sequential(nn.Dropout(0.2), nn.Linear(20, 1))
everything = nn.ModuleList([extractor, head])
opt = torch.optim.Adam(everything.parameters(), lr=0.01)


def forward(x):
    return head(extractor(x)).squeeze(1)


def score(x, y):
    head.eval()  # BUG mode-left
    # FIX everything.eval()
    with torch.no_grad():
        error = (forward(x) - y).abs().mean().item()  # ALSO
    head.train()
    # FIX everything.train()
    return error


x = torch.randn(40, 5)
y = x.sum(dim=1)
for epoch in range(3):
    loss = (forward(x[:30]) - y[:30]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item(), score(x[30:], y[30:]))
