import copy

import torch
import torch.nn as nn

torch.manual_seed(0)


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.scores = []
        self.best = None

    def update(self, score, model):
        self.scores.append(score)  # BUG history-kept
        # FIX self.scores.append(score.item())
        if score <= min(self.scores):
            self.best = copy.deepcopy(model.state_dict())
        recent = self.scores[-self.patience :]
        return len(recent) == self.patience and min(recent) > min(self.scores)


model = nn.Linear(7, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
stopper = EarlyStopping(patience=3)
x = torch.randn(50, 7)
y = x @ torch.randn(7, 1)
for epoch in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if stopper.update(loss, model):  # ALSO
        break
print("epochs", epoch + 1, "best", float(min(stopper.scores)))
