"""Early stopping: the best weights on the validation set are to come back at the end."""

import copy

import torch
import torch.nn as nn

torch.manual_seed(0)

train_x, val_x = torch.randn(40, 5), torch.randn(20, 5)
w = torch.randn(5, 1)
train_y, val_y = train_x @ w + 0.5 * torch.randn(40, 1), val_x @ w


def validate(model):
    model.eval()
    with torch.no_grad():
        found = nn.functional.mse_loss(model(val_x), val_y).item()
    model.train()
    return found


def fit(model, epochs=12, patience=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    best, waited, best_state = float("inf"), 0, None
    for epoch in range(epochs):
        for x, y in zip(train_x.split(10), train_y.split(10)):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        score = validate(model)
        if score < best:
            best, waited = score, 0
            best_state = model.state_dict()  # BUG not-a-copy
            # FIX best_state = copy.deepcopy(model.state_dict())
        else:
            waited += 1
            if waited >= patience:
                break
    for x, y in zip(train_x.split(10), train_y.split(10)):  # once over it for the calibration
        optimizer.zero_grad()
        nn.functional.l1_loss(model(x), y).backward()
        optimizer.step()
    model.load_state_dict(best_state)  # ALSO
    return best


model = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1))
print(fit(model), validate(model))
