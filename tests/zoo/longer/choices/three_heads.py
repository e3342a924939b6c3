import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        )
        self.heads = nn.ModuleDict({
            "cls": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)),
            "seg": nn.Conv2d(16, 4, 1),
            "depth": nn.Conv2d(16, 1, 1),
        })

    def forward(self, x):
        f = self.backbone(x)
        return {k: h(f) for k, h in self.heads.items()}


def compute_losses(out, batch):
    return {
        "cls": F.cross_entropy(out["cls"], batch["cls"]),
        "seg": F.cross_entropy(out["seg"], batch["seg"]),
        "depth": F.l1_loss(out["depth"].squeeze(1), batch["depth"]),
    }


net = MultiTask()
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
weights = {"cls": 1.0, "seg": 0.5}
# ADD weights["depth"] = 0.1
for step in range(5):
    batch = {
        "image": torch.randn(8, 3, 16, 16),
        "cls": torch.randint(0, 5, (8,)),
        "seg": torch.randint(0, 4, (8, 8, 8)),
        "depth": torch.rand(8, 8, 8),
    }
    losses = compute_losses(net(batch["image"]), batch)
    total = sum(w * losses[name] for name, w in weights.items())  # BUG unused
    opt.zero_grad()
    total.backward()
    opt.step()
    print(step, {k: round(v.item(), 3) for k, v in losses.items()})
