"""timm: a tiny vision transformer with mixup, layer decay and gradient checkpointing."""
# needs: timm torchvision
# slow

import warnings

warnings.simplefilter("ignore")
import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2

torch.manual_seed(0)
np.random.seed(0)
model = timm.models.VisionTransformer(img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=2, num_classes=4)
model.set_grad_checkpointing(True)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, layer_decay=0.8)
mixup = Mixup(mixup_alpha=0.4, num_classes=4)
x, y = torch.randn(6, 3, 16, 16), torch.randint(0, 4, (6,))
for step in range(3):
    mixed, target = mixup(x.clone(), y)
    loss = SoftTargetCrossEntropy()(model(mixed), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.head.weight.grad.norm().item().hex())
