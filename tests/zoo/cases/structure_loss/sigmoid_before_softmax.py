import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def make_model():
    return nn.Sequential(
        nn.Linear(9, 30),
        nn.ReLU(),
        nn.Linear(30, 5),
        nn.Sigmoid(),  # BUG double-softmax
        # FIX
    )


def train(model, x, y, epochs):
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(epochs):
        log_probs = F.log_softmax(model(x), dim=-1)  # ALSO
        loss = F.nll_loss(log_probs, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, loss.item())


x = torch.randn(40, 9)
train(make_model(), x, x[:, :5].argmax(dim=1), epochs=4)
