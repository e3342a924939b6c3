"""Training without an optimizer, as it is meant: nothing is to be said against it."""


def gradients_cut_one_by_one(torch):
    """Each sample's gradient is limited and cleared before the next; the update is of their mean."""
    torch.manual_seed(0)
    w = torch.randn(3, 1, requires_grad=True)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    for _ in range(4):
        gathered = []
        for i in range(8):
            ((x[i : i + 1] @ w - y[i]) ** 2).mean().backward()
            gradient = w.grad.clone()
            gathered.append(gradient / max(1.0, gradient.norm().item()))
            w.grad.zero_()
        with torch.no_grad():
            w -= 0.1 * torch.stack(gathered).mean(0)


def gradients_cut_one_by_one_for_an_optimizer(torch):
    torch.manual_seed(0)
    w = torch.randn(3, 1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    for _ in range(4):
        gathered = []
        for i in range(8):
            optimizer.zero_grad()
            ((x[i : i + 1] @ w - y[i]) ** 2).mean().backward()
            gathered.append(w.grad / max(1.0, w.grad.norm().item()))
        optimizer.zero_grad()
        w.grad = torch.stack(gathered).mean(0)
        optimizer.step()


def momentum(torch):
    torch.manual_seed(0)
    w = torch.randn(3, 1, requires_grad=True)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    speed = torch.zeros(3, 1)
    for _ in range(6):
        ((x @ w - y) ** 2).mean().backward()
        speed = 0.9 * speed + w.grad
        w.grad = None
        with torch.no_grad():
            w -= 0.1 * speed


def new_leaves(torch):
    torch.manual_seed(0)
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    v = torch.randn(3, 1, requires_grad=True)
    for _ in range(6):
        (x @ v - y).pow(2).mean().backward()
        v = (v - 0.1 * v.grad).detach().requires_grad_()
    u = torch.randn(3, 1, requires_grad=True)
    for _ in range(6):
        (gradient,) = torch.autograd.grad((x @ u - y).pow(2).mean(), u)
        u.data = u.data - 0.1 * gradient


def two_networks(torch):
    torch.manual_seed(0)
    maker, judge = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)

    def update(model):
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad

    for _ in range(8):
        maker.zero_grad()
        judge.zero_grad()
        fake = maker(torch.randn(4, 2))
        (judge(fake.detach()).mean() - judge(torch.randn(4, 3)).mean()).backward()
        update(judge)
        with torch.no_grad():
            for p in judge.parameters():
                p.clamp_(-0.1, 0.1)
        maker.zero_grad()
        judge.zero_grad()
        (-judge(fake).mean()).backward()
        update(maker)


def attack(torch):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(3, 1), torch.randn(4, 3)
    change = torch.zeros(4, 3, requires_grad=True)
    for _ in range(5):
        model(x + change).sum().backward()
        change.data = (change.data + 0.01 * change.grad.sign()).clamp(-0.1, 0.1)
        change.grad.zero_()


def micro_batches_with_a_rest(torch):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 3)
    data = [(torch.randn(4, 2), torch.randn(4, 3)) for _ in range(7)]
    losses = []
    for _ in range(2):
        for i, (a, b) in enumerate(data):
            loss = torch.nn.functional.mse_loss(model(a), b) / 3
            loss.backward()
            losses.append(loss.item())
            if (i + 1) % 3 == 0 or i + 1 == len(data):
                for p in model.parameters():
                    p.data -= 0.1 * p.grad
                model.zero_grad()
