"""Programs that write in place, train, or do both."""


def in_place(torch):
    x = torch.randn(4, requires_grad=True)
    y = x * 2
    y.add_(1).mul_(x)
    torch.relu_(y)
    y.sum().backward()


def through_a_view(torch):
    x = torch.randn(4, requires_grad=True)
    y = x * 2
    y[0] = 5.0
    y[1:3].mul_(3)
    y.view(2, 2)[0].add_(x[:2])
    y.sum().backward()


def into_rows(torch):
    x, rows = torch.randn(3, requires_grad=True), torch.zeros(2, 3)
    rows[0] = x * 2
    rows[1] = rows[0].clone() + x
    rows.sum().backward()


def scattered(torch):
    x, out = torch.randn(3, requires_grad=True), torch.zeros(5)
    out.index_add_(0, torch.tensor([0, 2, 2]), x * 2)
    out.index_put_((torch.tensor([1]),), x[:1])
    out.masked_fill_(out > 2, 0.0)
    (out * out).sum().backward()


def copied(torch):
    x, y = torch.randn(3, requires_grad=True), torch.zeros(3)
    y.copy_(x)
    z = y.clone()
    z.zero_()
    (y * 2 + z).sum().backward()


def under_no_grad(torch):
    w = torch.randn(3, requires_grad=True)
    for _ in range(3):
        (w**2).sum().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()


def _train(torch, make, rounds=3):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = make(model.parameters())
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    for _ in range(rounds):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def descent(torch):
    _train(torch, lambda p: torch.optim.SGD(p, lr=0.1))


def momentum(torch):
    _train(torch, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True))


def adam(torch):
    _train(torch, lambda p: torch.optim.Adam(p, lr=0.1))


def adam_with_decay(torch):
    _train(torch, lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1))


def root_mean_square(torch):
    _train(torch, lambda p: torch.optim.RMSprop(p, lr=0.1))


def gradients_that_stay(torch):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        for _ in range(3):
            model(torch.randn(4, 3)).mean().backward()
        optimizer.step()


def clipped(torch):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.randn(4, 3)) ** 2).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def scheduled(torch):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).mean().backward()
        optimizer.step()
        schedule.step()


def batches(torch):
    data = torch.utils.data.TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def two_models(torch):
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    first = torch.optim.SGD(one.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(2):
        first.zero_grad()
        second.zero_grad()
        other(one(torch.randn(3, 2)).detach()).mean().backward()
        second.step()
        (-other(one(torch.randn(3, 2))).mean()).backward()
        first.step()


def closures(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (x**4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def half_precision(torch):
    model = torch.nn.Linear(3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(4, 3)).float().sum()
    loss.backward()


def turned_in_place(torch):
    x = torch.cat([torch.randn(2, 3, requires_grad=True).exp()] * 2)
    x.transpose_(0, 1)
    y = x * x
    y.unsqueeze_(0).mul_(2)
    y.squeeze_(0)
    y.t_()
    (y * x.t()).sum().backward()
