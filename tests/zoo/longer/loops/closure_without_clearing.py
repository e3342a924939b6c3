"""Style transfer by LBFGS; the closure never clears the picture's gradient."""

import torch
import torch.nn as nn

torch.manual_seed(0)


def gram(x):
    b, c, h, w = x.shape
    flat = x.view(b * c, h * w)
    return flat @ flat.t() / (b * c * h * w)


class StyleLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.register_buffer("target", gram(target).detach())

    def forward(self, x):
        return (gram(x) - self.target).pow(2).sum()


extractor = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1))
for p in extractor.parameters():
    p.requires_grad_(False)

style, content = torch.rand(1, 3, 10, 10), torch.rand(1, 3, 10, 10)
style_loss = StyleLoss(extractor(style))
content_target = extractor(content)
picture = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([picture], lr=0.1, max_iter=5)
run = [0]

while run[0] < 20:

    def closure():
        with torch.no_grad():
            picture.clamp_(0, 1)
        # ADD optimizer.zero_grad()
        features = extractor(picture)
        loss = 100 * style_loss(features) + (features - content_target).pow(2).mean()
        loss.backward()  # BUG gradients-add-up
        run[0] += 1
        return loss

    loss = optimizer.step(closure)  # ALSO
    print(run[0], loss.item())
