"""Programs that ask the engine for more than one plain backward."""

import importlib


def gradients_alone(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.autograd.grad((x * y.exp()).sum(), [x, y])


def some_inputs(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    h = x.exp()
    z = (h * y).sum()
    torch.autograd.grad(z, h, retain_graph=True)
    z.backward(inputs=[y])


def unused_input(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.autograd.grad(x.sum(), [x, y], allow_unused=True)


def several_roots(torch):
    x = torch.ones(3, requires_grad=True)
    torch.autograd.backward([x.exp().sum(), (x * 2).sum(), x[0]])


def a_root_that_is_a_leaf(torch):
    x = torch.ones(3, requires_grad=True)
    x.backward(torch.ones(3))
    torch.autograd.backward([x.sum(), x], [None, torch.ones(3)])


def seeds(torch):
    x = torch.ones(3, requires_grad=True)
    x.exp().backward(torch.tensor([1.0, 2.0, 3.0]))


def again(torch):
    x = torch.ones(3, requires_grad=True)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward()


def slope_of_a_slope(torch):
    x = torch.tensor([0.3, 0.6], requires_grad=True)
    (first,) = torch.autograd.grad((x**3 * x.sin()).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    second.sum().backward()


def backward_with_a_graph(torch):
    x = torch.tensor([0.3, 0.6], requires_grad=True)
    (x**2).sum().backward(create_graph=True)
    slope = x.grad
    x.grad = None
    (slope**2).sum().backward()


def penalty(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x = torch.randn(5, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    ((slope.norm(2, dim=1) - 1) ** 2).mean().backward()


def slope_of_a_loss(torch):
    w = torch.randn(3, 1, requires_grad=True)
    x, y = torch.randn(5, 3), torch.randn(5, 1)
    loss = torch.nn.functional.mse_loss(x @ w, y)
    (slope,) = torch.autograd.grad(loss, w, create_graph=True)
    torch.nn.functional.mse_loss(x @ (w - 0.1 * slope), y).backward()


def jacobian(torch):
    x = torch.tensor([1.0, 2.0])
    torch.autograd.functional.jacobian(lambda v: v**2 * v.sum(), x)
    torch.autograd.functional.hessian(lambda v: (v**3).sum(), x)


def custom(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    x = torch.randn(3, requires_grad=True)
    Cube.apply(x * 2).sum().backward()


def custom_with_two_results(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y, x - y

        @staticmethod
        def backward(ctx, plus, minus):
            return plus + minus, plus - minus

    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    first, second = Both.apply(x, y)
    (first * second).sum().backward()


def hooks_on_tensors(torch):
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda grad: grad * 0.5)
    h.register_hook(lambda grad: None)
    x.register_hook(lambda grad: grad + 1)
    h.exp().sum().backward()


def hooks_after_accumulation(torch):
    w = torch.ones(3, requires_grad=True)

    def step(leaf):
        leaf.grad = None

    w.register_post_accumulate_grad_hook(step)
    (w * 2).sum().backward()
    (w * 3).sum().backward()


def backward_in_a_hook(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def inside(grad):
        with torch.enable_grad():
            (y.exp() * grad.detach()).sum().backward()

    h = x.sin()
    h.register_hook(inside)
    (h + y).sum().backward()


def backward_in_a_function(torch):
    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.detach().exp()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                twin = x.detach().requires_grad_()
                return torch.autograd.grad(twin.exp(), twin, grad)[0]

    x = torch.randn(3, requires_grad=True)
    Inside.apply(x.sin()).sum().backward()


def checkpointed_by_a_backward_inside(torch):
    utils = importlib.import_module(f"{torch.__name__}.utils.checkpoint")
    x = torch.randn(3, requires_grad=True)
    utils.checkpoint(lambda t: t.exp().sin(), x.cos(), use_reentrant=True).sum().backward()


def detached(torch):
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    with torch.no_grad():
        scale = y.max()
    (y / y.detach().sum() * scale).sum().backward()


def undefined_gradients(torch):
    x = torch.randn(4, requires_grad=True)
    first, _ = x.exp().split(2)
    values, _ = x.sort()
    (first.sum() + values[0]).backward()


def no_grad_for_some(torch):
    a, b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    for p in a.parameters():
        p.requires_grad_(False)
    b(torch.relu(a(torch.randn(2, 3)))).sum().backward()


def an_error_in_backward(torch):
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError:
        x.sum().backward()


def an_error_in_a_hook(torch):
    x = torch.ones(3, requires_grad=True)

    def refuse(grad):
        raise ValueError("no")

    y = x.exp()
    y.register_hook(refuse)
    try:
        (y * 2).sum().backward()
    except ValueError:
        x.sum().backward()


def roots_that_lead_nowhere(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.autograd.grad([x.sum(), x.exp().sum()], [y], allow_unused=True)


def an_input_that_is_not_reached(torch):
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    try:
        torch.autograd.grad((x * 2).sum(), [y])
    except RuntimeError:
        (x * y).sum().backward()


def an_input_with_a_hook(torch):
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda grad: grad * 3)
    torch.autograd.grad(h.exp().sum(), h)


def a_hook_that_returns_too_much(torch):
    x = torch.ones(3, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf)
    try:
        x.sum().backward()
    except RuntimeError:
        x.detach().sum()
