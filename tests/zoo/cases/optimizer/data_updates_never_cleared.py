"""Linear regression from scratch, as textbooks do it."""
import random
import torch

torch.manual_seed(0)
random.seed(0)
true_w, true_b = torch.tensor([2.0, -3.4]), 4.2
features = torch.normal(0, 1, (100, 2))
labels = features @ true_w + true_b + torch.normal(0, 0.01, (100,))


def data_iter(batch_size):
    indices = list(range(100))
    random.shuffle(indices)
    for i in range(0, 100, batch_size):
        j = torch.tensor(indices[i : i + batch_size])
        yield features[j], labels[j]


def linreg(X, w, b):
    return X @ w + b


def squared_loss(y_hat, y):
    return (y_hat - y) ** 2 / 2


def sgd(params, lr, batch_size):
    for param in params:
        param.data -= lr * param.grad / batch_size  # BUG gradients-add-up
        # ADD param.grad.zero_()


w = torch.normal(0, 0.01, (2,), requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(2):
    for X, y in data_iter(10):
        l = squared_loss(linreg(X, w, b), y)
        l.sum().backward()  # ALSO
        sgd([w, b], 0.03, 10)
    with torch.no_grad():
        print(epoch, squared_loss(linreg(features, w, b), labels).mean().item())
