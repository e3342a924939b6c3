"""Small sound trainings: gradients cleared in many ways, several optimizers, evaluation."""


def _net(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )


def data_zero(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        for p in net.parameters():
            p.grad.data.zero_()


def two_optimizers_zero_by_hand(torch):
    a, b = _net(torch), torch.nn.Linear(1, 1)
    oa, ob = torch.optim.SGD(a.parameters(), lr=0.01), torch.optim.SGD(b.parameters(), lr=0.01)
    for _ in range(4):
        b(a(torch.randn(6, 4))).pow(2).mean().backward()
        oa.step()
        ob.step()
        for p in [*a.parameters(), *b.parameters()]:
            p.grad.zero_()


def zero_by_multiplying(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        for p in net.parameters():
            p.grad *= 0


def foreach_zero(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        torch._foreach_zero_([p.grad for p in net.parameters()])


def lbfgs(torch):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
    x = torch.randn(10, 4)

    def closure():
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(3):
        opt.step(closure)


def gan(torch):
    g, d = (
        torch.nn.Linear(2, 3),
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)),
    )
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for _ in range(4):
        fake = g(torch.randn(5, 2))
        od.zero_grad()
        (d(fake.detach()).mean() - d(torch.randn(5, 3)).mean()).backward()
        od.step()
        og.zero_grad()
        (-d(fake).mean()).backward()
        og.step()


def gan_two_losses(torch):
    g, d = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for _ in range(4):
        d.zero_grad()
        d(torch.randn(5, 3)).mean().backward()
        fake = g(torch.randn(5, 2))
        (-d(fake.detach()).mean()).backward()
        od.step()
        g.zero_grad()
        d(fake).mean().backward()
        og.step()


def shared_trunk(torch):
    nn = torch.nn
    trunk, a, b = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)
    ot, oa, ob = (torch.optim.SGD(m.parameters(), lr=0.01) for m in (trunk, a, b))
    for _ in range(4):
        for o in (ot, oa, ob):
            o.zero_grad()
        a(trunk(torch.randn(5, 3))).pow(2).mean().backward()
        oa.step()
        b(trunk(torch.randn(5, 3))).pow(2).mean().backward()
        ob.step()
        ot.step()


def fixmatch(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        with torch.no_grad():
            pseudo = net(torch.randn(6, 4))
        opt.zero_grad()
        (net(torch.randn(6, 4)) - pseudo).pow(2).mean().backward()
        opt.step()


def frozen_batch_norm(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        net.train()
        for m in net.modules():
            if isinstance(m, torch.nn.BatchNorm1d):
                m.eval()
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        net.eval()
        with torch.no_grad():
            net(torch.randn(6, 4))


def frozen_backbone(torch):
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = _net(torch)
            self.head = torch.nn.Linear(1, 1)

        def forward(self, x):
            return self.head(self.backbone(x))

    m = M()
    m.backbone.requires_grad_(False)
    opt = torch.optim.SGD(m.head.parameters(), lr=0.01)
    for _ in range(3):
        m.train()
        m.backbone.eval()
        opt.zero_grad()
        m(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        m.eval()
        with torch.no_grad():
            m(torch.randn(6, 4))


def evaluation_with_grad_in_eval(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        net.train()
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        net.eval()
        net(torch.randn(6, 4)).pow(2).mean().item()


def saliency_in_eval(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        net.train()
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
        net.eval()
        x = torch.randn(2, 4, requires_grad=True)
        net(x).sum().backward()
        x.grad.abs().mean().item()


def ema_teacher(torch):
    import copy

    net = _net(torch)
    teacher = copy.deepcopy(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        x = torch.randn(6, 4)
        with torch.no_grad():
            target = teacher(x)
        opt.zero_grad()
        (net(x) - target).pow(2).mean().backward()
        opt.step()
        with torch.no_grad():
            for a, b in zip(teacher.parameters(), net.parameters()):
                a.mul_(0.9).add_(b, alpha=0.1)


def mc_dropout(torch):
    net = _net(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        opt.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()
    net.eval()
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.train()
    with torch.no_grad():
        torch.stack([net(torch.randn(6, 4)) for _ in range(5)]).std(0)


def several_losses(torch):
    net = torch.nn.Linear(4, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        opt.zero_grad()
        for task in range(3):
            net(torch.randn(6, 4))[:, task].pow(2).mean().backward()
        opt.step()


def accumulate_divide_gradients(torch):
    net = torch.nn.Linear(4, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for i in range(8):
        net(torch.randn(6, 4)).pow(2).mean().backward()
        if i % 4 == 3:
            for p in net.parameters():
                p.grad /= 4
            opt.step()
            opt.zero_grad()


def accumulate_sums(torch):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    for i in range(8):
        torch.nn.functional.mse_loss(
            net(torch.randn(6, 4)), torch.randn(6, 1), reduction="sum"
        ).backward()
        if i % 4 == 3:
            opt.step()
            opt.zero_grad()
