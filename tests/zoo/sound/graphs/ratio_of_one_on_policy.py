"""A clipped policy gradient with one step for each batch of new choices: the ratio is 1."""

import torch
import torch.nn as nn

torch.manual_seed(0)

scorer = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 4))
adam = torch.optim.Adam(scorer.parameters(), lr=5e-3)


def scores(features, picked):
    return scorer(features).log_softmax(1).gather(1, picked[:, None])[:, 0]


def drawn(features):
    with torch.no_grad():
        return torch.multinomial(scorer(features).softmax(1), 1)[:, 0]


for _ in range(6):
    features = torch.randn(48, 5)
    picked = drawn(features)
    gain = (picked == features[:, :4].argmax(1)).float()
    gain = gain - gain.mean()
    with torch.no_grad():
        before = scores(features, picked)
    weight = (scores(features, picked) - before).exp()
    loss = -torch.minimum(weight * gain, weight.clamp(0.8, 1.2) * gain).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
