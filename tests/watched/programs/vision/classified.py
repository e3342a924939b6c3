"""torchvision's recipe for images: mixed batches, label smoothing, an EMA with buffers, bfloat16."""
# needs: torchvision
# slow

import torch
import torchvision
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torchvision.ops import stochastic_depth
from torchvision.transforms import v2

torch.manual_seed(0)
data = TensorDataset(torch.rand(12, 3, 32, 32), torch.randint(0, 5, (12,)))
mix = v2.RandomChoice([v2.MixUp(num_classes=5), v2.CutMix(num_classes=5)])
loader = DataLoader(data, batch_size=4, shuffle=True, drop_last=True, collate_fn=lambda rows: mix(*default_collate(rows)))
for make in (torchvision.models.resnet18, torchvision.models.swin_t):
    torch.manual_seed(1)
    model = make(weights=None, num_classes=5)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    smoothed = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, nesterov=True)
    for step, (x, y) in enumerate(loader):
        with torch.autocast("cpu", torch.bfloat16, enabled=step == 1):
            loss = smoothed(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        print(make.__name__, step, loss.item().hex(), next(model.parameters()).grad.norm().item().hex())
    with torch.no_grad():
        print(ema.eval()(torch.ones(1, 3, 32, 32)).sum().item().hex())
print(stochastic_depth(torch.ones(4, 2), 0.5, "row", training=True).sum().item().hex())
