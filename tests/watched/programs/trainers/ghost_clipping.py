"""opacus: gradients of each sample by functorch, by expanded weights, and norms without gradients."""
# needs: opacus
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.grad_sample.gsm_exp_weights import GradSampleModuleExpandedWeights

torch.manual_seed(0)


class Gate(torch.nn.Module):  # has no rule of opacus: functorch finds its gradients
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * torch.sigmoid(self.scale)


def network():
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 8), Gate(), torch.nn.Linear(8, 2))


x, y = torch.randn(6, 1, 6), torch.randint(0, 2, (6,))
model = GradSampleModule(network(), loss_reduction="mean")
torch.nn.functional.cross_entropy(model(x), y).backward()
print(*(p.grad_sample.flatten(1).norm(dim=1).max().item().hex() for p in model.parameters()))
expanded = GradSampleModuleExpandedWeights(torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
torch.nn.functional.cross_entropy(expanded(x[:, 0]), y).backward()
print(*(p.grad_sample.norm().item().hex() for p in expanded.parameters()))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(18, 6), torch.randint(0, 2, (18,))), batch_size=6)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loss_of, data = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=data, criterion=torch.nn.CrossEntropyLoss(), noise_multiplier=0.8, max_grad_norm=0.5,
    grad_sample_mode="ghost", poisson_sampling=False, noise_generator=torch.Generator().manual_seed(1),
)
for part, labels in data:
    optimizer.zero_grad()
    loss = loss_of(model(part), labels)
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), next(model.parameters()).grad.norm().item().hex())
