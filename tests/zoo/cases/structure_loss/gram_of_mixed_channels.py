"""Optimising an image by its Gram matrices."""
import torch
from torch import nn

torch.manual_seed(0)
vgg = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
for p in vgg.parameters():
    p.requires_grad_(False)
content, style = torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16)
image = content.clone().requires_grad_(True)
optimizer = torch.optim.Adam([image], lr=0.02)


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b * h * w, c)  # BUG mixed-up-elements
    # FIX f = f.permute(1, 0, 2, 3).reshape(c, b * h * w).t()
    return f.t() @ f / (h * w)


target_style = gram(vgg(style))
target_content = vgg(content)
for step in range(8):
    features = vgg(image)
    style_loss = (gram(features) - target_style).pow(2).mean()
    content_loss = (features - target_content).pow(2).mean()
    loss = content_loss + 100 * style_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        image.clamp_(0, 1)
    print(step, loss.item())
