"""A clipped policy gradient over stored choices, with old scores that are never the old ones."""

import torch
import torch.nn as nn

torch.manual_seed(0)

scorer = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 4))
adam = torch.optim.Adam(scorer.parameters(), lr=5e-3)


def scores(features, picked):
    return scorer(features).log_softmax(1).gather(1, picked[:, None])[:, 0]


for shift in range(2):
    features = torch.randn(48, 5)
    with torch.no_grad():
        picked = torch.multinomial(scorer(features).softmax(1), 1)[:, 0]
    gain = (picked == features[:, :4].argmax(1)).float()
    gain = gain - gain.mean()
    # ADD with torch.no_grad():
    # ADD     first = scores(features, picked)
    for sweep in range(5):
        with torch.no_grad():
            # FIX
            first = scores(features, picked)  # BUG sides-cancel
            # FIX
        weight = (scores(features, picked) - first).exp()  # ALSO
        lowest = torch.minimum(weight * gain, weight.clamp(0.8, 1.2) * gain)
        loss = -lowest.mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    print(shift, loss.item())
