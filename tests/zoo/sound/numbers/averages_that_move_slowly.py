"""Averages of weights, statistics and losses, in the forms in which they are written."""


def steps(torch, model, update, many=6):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(many):
        x = torch.randn(16, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            update(x)
    print(loss.item())


def polyak(torch):
    torch.manual_seed(0)
    model, target = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1).requires_grad_(False)

    def update(_, tau=0.005):
        for t, p in zip(target.parameters(), model.parameters()):
            t.data.copy_(tau * p.data + (1.0 - tau) * t.data)

    steps(torch, model, update)


def decay_that_warms_up(torch):
    torch.manual_seed(0)
    model, shadow = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1).requires_grad_(False)
    count = 0

    def update(_):
        nonlocal count
        decay = min(0.999, (1 + count) / (10 + count))
        count += 1
        for s, p in zip(shadow.parameters(), model.parameters()):
            s.mul_(decay).add_(p, alpha=1 - decay)

    steps(torch, model, update)


def copied_as_a_whole(torch):
    torch.manual_seed(0)
    model, target = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1).requires_grad_(False)

    def update(_, tau=1.0):
        for t, p in zip(target.parameters(), model.parameters()):
            t.mul_(1.0 - tau).add_(p, alpha=tau)

    steps(torch, model, update)


def running_statistics_of_a_layer(torch):
    class Norm(torch.nn.Module):
        def __init__(self, momentum=0.1):
            super().__init__()
            self.momentum, self.layer = momentum, torch.nn.Linear(4, 1)
            self.register_buffer("running_mean", torch.zeros(4))

        def forward(self, x):
            mean = x.detach().mean(0)
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
            return self.layer(x - mean)

    torch.manual_seed(0)
    steps(torch, Norm(), lambda x: None)


def loss_for_a_log(torch):
    torch.manual_seed(0)
    model, smooth = torch.nn.Linear(4, 1), 0.0

    def update(x):
        nonlocal smooth
        smooth = 0.1 * smooth + 0.9 * model(x).mean().item()

    steps(torch, model, update)


def slow_weights_of_lookahead(torch):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    slow = [p.detach().clone() for p in model.parameters()]
    count = 0

    def update(_):
        nonlocal count
        count += 1
        if count % 3 == 0:
            for s, p in zip(slow, model.parameters()):
                s.add_(p - s, alpha=0.5)
                p.copy_(s)

    steps(torch, model, update)
