"""timm: a small ResNet with batch norm and stochastic depth, its optimizer and schedule, an EMA."""
# needs: timm torchvision
# slow

import warnings

warnings.simplefilter("ignore")
import timm
import timm.loss
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

torch.manual_seed(0)
model = timm.create_model("resnet10t", pretrained=False, num_classes=4, drop_path_rate=0.1)
optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=1e-4)
schedule = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1)
ema = ModelEmaV3(model, decay=0.9)
x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 4, (4,))
for step in range(2):
    loss = timm.loss.LabelSmoothingCrossEntropy(0.1)(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step(step + 1)
    ema.update(model)
    print(step, loss.item().hex(), model.get_classifier().weight.grad.norm().item().hex())
with torch.no_grad():
    print(ema.module.eval()(x).sum().item().hex())
