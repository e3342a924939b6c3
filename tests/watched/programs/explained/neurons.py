"""captum: conductance of neurons, activations of a layer, a baseline of noise, and features left out."""
# needs: captum
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from captum.attr import FeatureAblation, InternalInfluence, LayerActivation, LayerConductance, NeuronConductance, NoiseTunnel, Saliency

torch.manual_seed(0)


class Tabular(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 10), torch.nn.Linear(10, 2)
        self.act = torch.nn.Softplus()

    def forward(self, x):
        return self.second(self.act(self.first(x))).softmax(-1)


model = Tabular()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(24, 6)
y = (x[:, 0] > 0).long()
for epoch in range(3):
    for part in torch.randperm(24).split(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(model(x[part]).log(), y[part])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item().hex())
model.eval()
some = x[:3]
print(LayerConductance(model, model.first).attribute(some, target=1, n_steps=8).norm().item().hex())
print(NeuronConductance(model, model.first).attribute(some, 4, target=1, n_steps=8).norm().item().hex())
print(InternalInfluence(model, model.act).attribute(some, target=0, n_steps=8).norm().item().hex())
print(LayerActivation(model, model.first).attribute(some).norm().item().hex())
print(FeatureAblation(model).attribute(some, target=1).norm().item().hex())
tunnel = NoiseTunnel(Saliency(model))
print(tunnel.attribute(some, target=1, nt_type="smoothgrad_sq", nt_samples=4, stdevs=0.1).norm().item().hex())
