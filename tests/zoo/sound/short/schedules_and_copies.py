"""Small sound trainings: accumulation, schedules, seeds, hooks, copies, checkpoints."""


def _net(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )


def sum_loss(torch):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    for i in range(8):
        net(torch.randn(6, 4)).pow(2).sum().backward()
        if i % 4 == 3:
            opt.step()
            opt.zero_grad()


def compare_rates(torch):
    for lr in (0.1, 0.01, 0.001):
        torch.manual_seed(0)
        net = _net(torch)
        opt = torch.optim.SGD(net.parameters(), lr=lr)
        for _ in range(3):
            opt.zero_grad()
            net(torch.randn(6, 4)).pow(2).mean().backward()
            opt.step()


def forked_seed(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            torch.randn(3)


def schedules(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.95)
    for _ in range(30):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        sched.step()


def one_cycle(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=12)
    for _ in range(12):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        sched.step()


def resumed(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2, gamma=0.5)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            sched.step()
    for _ in range(5):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        sched.step()


def two_phases(torch):
    net = _net(torch)
    for opt in (
        torch.optim.SGD(net.parameters(), lr=0.1),
        torch.optim.Adam(net.parameters(), lr=0.01),
    ):
        for _ in range(3):
            opt.zero_grad()
            net(torch.randn(6, 4)).pow(2).mean().backward()
            opt.step()


def clip_and_log(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        float(torch.nn.utils.clip_grad_norm_(net.parameters(), float("inf")))


def big_weighted_loss(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        (net(torch.randn(6, 4)).pow(2).mean() * 100).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()


def hooks_on_many(torch):
    net = _net(torch)
    seen = {}
    for name, m in net.named_modules():
        m.register_forward_hook(lambda m, i, o, name=name: seen.__setitem__(name, 1))
    for name in ("a", "b"):
        net[0].register_forward_hook(lambda m, i, o, name=name: seen.__setitem__(name, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        out = net(torch.randn(6, 4))
        out.register_hook(lambda grad: None)
        h = net[0].register_forward_hook(lambda m, i, o: None)
        out.pow(2).mean().backward()
        h.remove()
        opt.step()


def clear_late_with_skip(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(6):
        loss = net(torch.randn(6, 4)).pow(2).mean()
        loss.backward()
        if i == 2:
            opt.zero_grad()
            continue
        opt.step()
        opt.zero_grad()


def first_step_empty(torch):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(8):
        if i % 2 == 0:
            opt.step()
            opt.zero_grad()
        (net(torch.randn(6, 4)).pow(2).mean() / 2).backward()


def after_training_gradients(torch):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(8):
        (net(torch.randn(6, 4)).pow(2).mean() / 2).backward()
        if i % 2:
            opt.step()
            opt.zero_grad()
    net(torch.randn(6, 4)).pow(2).mean().backward()


def sam(torch):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(4):
        x = torch.randn(6, 4)
        net(x).pow(2).mean().backward()
        kept = []
        with torch.no_grad():
            for p in net.parameters():
                e = 0.05 * p.grad / (p.grad.norm() + 1e-6)
                p.add_(e)
                kept.append(e)
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        with torch.no_grad():
            for p, e in zip(net.parameters(), kept):
                p.sub_(e)
        opt.step()
        opt.zero_grad()


def swa(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(6, 4))
    net.eval()


def reentrant_checkpoint(torch):
    from torch.utils.checkpoint import checkpoint

    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)
            self.b = _net(torch)

        def forward(self, x):
            return checkpoint(self.b, self.a(x), use_reentrant=True)

    m = M()
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    for i in range(3):
        opt.zero_grad()
        m(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()


def zero_dropout(torch):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0), torch.nn.Linear(4, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        with torch.no_grad():
            net(torch.randn(3, 4))


def shared_relu(torch):
    act = torch.nn.ReLU()
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 4), act, torch.nn.Linear(4, 4), act, torch.nn.Linear(4, 1)
    )
    net(torch.randn(3, 4)).sum().backward()


def load_backbone(torch):
    net = _net(torch)
    state = {k: v for k, v in net.state_dict().items() if k.startswith("0.")}
    net.load_state_dict(state, strict=False)
    net(torch.randn(3, 4)).sum().backward()
