import torch
import torch.nn as nn

torch.manual_seed(4)
features = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
)


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


class StyleLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = gram(target)  # BUG second-backward
        # FIX self.target = gram(target).detach()

    def forward(self, f):
        return ((gram(f) - self.target) ** 2).mean()


content, style = torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16)
style_loss = StyleLoss(features(style))  # ALSO
with torch.no_grad():
    content_feat = features(content)

img = content.clone().requires_grad_(True)
opt = torch.optim.Adam([img], lr=0.05)
for step in range(6):
    opt.zero_grad()
    f = features(img)
    loss = ((f - content_feat) ** 2).mean() + 1e3 * style_loss(f)
    loss.backward()
    opt.step()
    with torch.no_grad():
        img.clamp_(0, 1)
print(loss.item())
