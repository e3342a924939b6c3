import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class TinyViT(nn.Module):
    def __init__(self, d=16, patch=4, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, stride=patch)
        self.pos = nn.Parameter(torch.zeros(1, 16, d))
        self.block = nn.TransformerEncoderLayer(d, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(d, classes)

    def forward(self, img):
        x = self.patch(img)
        b, c, h, w = x.shape
        x = x.view(b, h * w, c)  # BUG mixed-up-elements
        # FIX x = x.flatten(2).transpose(1, 2)
        x = self.block(x + self.pos)
        return self.head(x.mean(1))


vit = TinyViT()
opt = torch.optim.AdamW(vit.parameters(), lr=1e-3)
for step in range(4):
    img = torch.randn(6, 3, 16, 16)
    y = torch.randint(0, 5, (6,))
    loss = F.cross_entropy(vit(img), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
