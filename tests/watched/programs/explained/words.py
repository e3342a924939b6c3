"""captum: which words of a sentence an LSTM listens to, by gradients of its embedding."""
# needs: captum
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from captum.attr import LayerIntegratedGradients, LayerGradientXActivation, ShapleyValueSampling, TokenReferenceBase

torch.manual_seed(1)


class Sentiment(torch.nn.Module):
    def __init__(self, words=30):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, 8, padding_idx=0)
        self.lstm = torch.nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(16, 1)

    def forward(self, ids):
        states, _ = self.lstm(self.embedding(ids))
        return self.head(states.mean(1)).sigmoid()


model = Sentiment()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
ids = torch.randint(1, 30, (16, 7))
liked = (ids == 5).any(1, keepdim=True).float()
for step in range(4):
    loss = torch.nn.functional.binary_cross_entropy(model(ids), liked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.embedding.weight.grad.norm().item().hex())
reference = TokenReferenceBase(reference_token_idx=0).generate_reference(7, device="cpu").unsqueeze(0)
gradients = LayerIntegratedGradients(model, model.embedding)
parts, delta = gradients.attribute(ids[:2], reference.expand(2, -1), n_steps=10, return_convergence_delta=True)
for row in parts.sum(-1):
    print(*(float(each).hex() for each in row))
print(delta.abs().max().item() < 0.5)
print(LayerGradientXActivation(model, model.embedding).attribute(ids[:2]).norm().item().hex())
