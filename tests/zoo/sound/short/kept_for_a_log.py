"""Small sound trainings that keep detached copies of what no loss is made of, to look at them."""


def _heads(torch):
    """Two heads of one body, held by one optimizer; only the first is trained in this run."""
    body, first = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    second = torch.randn(8, 1, requires_grad=True)
    opt = torch.optim.Adam([*body.parameters(), *first.parameters(), second], lr=1e-2)
    return body, first, second, opt


def copies_in_a_list(torch):
    body, first, second, opt = _heads(torch)
    seen = []
    for _ in range(4):
        h = torch.relu(body(torch.randn(16, 4)))
        seen.append((h @ second).detach().clone())
        loss = first(h).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(torch.stack(seen).std())


def copy_as_an_attribute(torch):
    body, first, second, opt = _heads(torch)

    class Monitor:
        last = None

        def watch(self, scores):
            self.last = scores.mean()

    monitor = Monitor()
    for _ in range(4):
        h = torch.relu(body(torch.randn(16, 4)))
        scores = h @ second
        monitor.watch(scores.detach().clone())
        loss = first(h).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{monitor.last:.3f}")


def metrics_beside_the_loss(torch):
    body, first, second, opt = _heads(torch)

    def losses(x):
        h = torch.relu(body(x))
        return first(h).pow(2).mean(), {"second": (h @ second).detach().clone().mean()}

    history = []
    for _ in range(4):
        loss, metrics = losses(torch.randn(16, 4))
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(metrics)
    print([float(each["second"]) for each in history])


def hook_that_keeps_a_copy(torch):
    body, first, second, opt = _heads(torch)
    kept = {}

    def keep(module, inputs, output):
        kept["scores"] = (output @ second).detach().clone()

    body.register_forward_hook(keep)
    for _ in range(4):
        loss = first(torch.relu(body(torch.randn(16, 4)))).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(kept["scores"].norm())
