"""Sound trainings in which the last bias gets no gradient, or one of zeros: it does not matter."""


def _critic(torch):
    nn = torch.nn
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    return maker, nn.Sequential(nn.Linear(2, 16), nn.Softplus()), nn.Linear(16, 1)


def _slopes(torch, maker, critic):
    """How far the critic's slopes are from 1: its last bias has no part in them."""
    x = torch.cat([torch.randn(64, 2) * 0.5 + 2, maker(torch.randn(64, 4)).detach()])
    x.requires_grad_(True)
    (slopes,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (slopes.norm(dim=1) - 1).pow(2).mean()


def critic_with_biases_in_an_optimizer_of_their_own(torch):
    maker, body, last = _critic(torch)
    critic = torch.nn.Sequential(body, last)
    of_maker = torch.optim.SGD(maker.parameters(), lr=1e-3)
    of_weights = torch.optim.SGD([*body.parameters(), last.weight], lr=1e-3)
    of_bias = torch.optim.SGD([last.bias], lr=1e-3)
    for _ in range(5):
        loss = _slopes(torch, maker, critic)
        of_weights.zero_grad()
        of_bias.zero_grad()
        loss.backward()
        of_weights.step()
        of_bias.step()
        of_maker.zero_grad()
        (-critic(maker(torch.randn(64, 4))).mean()).backward()
        of_maker.step()


def critic_updated_by_hand(torch):
    maker, body, last = _critic(torch)
    critic = torch.nn.Sequential(body, last)
    every = [*maker.parameters(), *critic.parameters()]

    def update(params):
        with torch.no_grad():
            for p in params:
                if p.grad is not None:
                    p -= 1e-3 * p.grad
            for p in every:
                if p.grad is not None:
                    p.grad.zero_()

    for _ in range(5):
        _slopes(torch, maker, critic).backward()
        update(critic.parameters())
        (-critic(maker(torch.randn(64, 4))).mean()).backward()
        update(maker.parameters())


def critic_of_differences(torch):
    maker, body, last = _critic(torch)
    critic = torch.nn.Sequential(body, last)
    of_maker = torch.optim.RMSprop(maker.parameters(), lr=5e-4)
    of_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    for _ in range(4):
        fake = maker(torch.randn(64, 4))
        of_critic.zero_grad()
        (critic(fake.detach()).mean() - critic(torch.randn(64, 2)).mean()).backward()
        of_critic.step()
        of_maker.zero_grad()
        (-critic(fake).mean()).backward()
        of_maker.step()


def hamiltonian(torch):
    nn = torch.nn
    torch.manual_seed(0)
    energy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(energy.parameters(), lr=1e-3)
    for _ in range(5):
        x = torch.randn(32, 2).requires_grad_(True)
        (slopes,) = torch.autograd.grad(energy(x).sum(), x, create_graph=True)
        loss = (slopes - x.detach()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def first_order_tasks_summed(torch):
    """A sum over tasks, each by its own backward through its own updates, is no micro-batch."""
    linear = torch.nn.functional.linear
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    meta = torch.optim.SGD(net.parameters(), lr=1e-2)
    for it in range(12):
        slope, fast = torch.rand(1), [net.weight, net.bias]
        for _ in range(2):
            x = torch.randn(8, 3)
            loss = (linear(x, *fast) - slope * x.sum(1, keepdim=True)).pow(2).mean()
            grads = torch.autograd.grad(loss, fast)
            fast = [w - 0.1 * g for w, g in zip(fast, grads)]
        loss = (linear(x, *fast) - slope * x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        if (it + 1) % 4 == 0:
            meta.step()
            meta.zero_grad()
