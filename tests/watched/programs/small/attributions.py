"""captum: integrated gradients, saliency, DeepLift, layer GradCAM of a network that was trained."""
# needs: captum
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from captum.attr import DeepLift, GuidedBackprop, IntegratedGradients, LayerGradCam, Saliency

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(10, 1, 8), torch.randint(0, 3, (10,))
for step in range(3):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model[0].weight.grad.norm().item().hex())
model.eval()
some = x[:2].clone().requires_grad_()
for kind in (IntegratedGradients, Saliency, DeepLift, GuidedBackprop):
    print(kind.__name__, kind(model).attribute(some, target=1).norm().item().hex())
print(LayerGradCam(model, model[0]).attribute(some, target=1).norm().item().hex())
