import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Sentiment(nn.Module):
    def __init__(self, words=50, width=12):
        super().__init__()
        self.embed = nn.EmbeddingBag(words, width)
        self.out = nn.Linear(width, 3)

    def forward(self, ids):
        return F.softmax(self.out(self.embed(ids)), dim=1)  # ALSO
        # FIX return F.log_softmax(self.out(self.embed(ids)), dim=1)


model = Sentiment()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
ids = torch.randint(0, 50, (20, 7))
labels = torch.randint(0, 3, (20,))
for epoch in range(4):
    opt.zero_grad()
    loss = F.nll_loss(model(ids), labels)  # BUG wrong-loss-input
    loss.backward()
    opt.step()
    print(epoch, loss.item())
