# ruff: noqa: E501 -- lines of programs
"""Training steps as people write them: `STEPS[name](torch)` gives a step and what it is called with.

Each step is a function of a batch's number and tensors, made anew, so that two of them, one replayed
and one not, begin alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Step = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]
STEPS: dict[str, Callable[[Any], Step]] = {}

LAYERS = {
    "linear": "nn.Linear(6, 6)",
    "relu": "nn.Sequential(nn.Linear(6, 6), nn.ReLU())",
    "tanh": "nn.Sequential(nn.Linear(6, 6), nn.Tanh())",
    "gelu": "nn.Sequential(nn.Linear(6, 6), nn.GELU())",
    "silu": "nn.Sequential(nn.Linear(6, 6), nn.SiLU())",
    "elu": "nn.Sequential(nn.Linear(6, 6), nn.ELU())",
    "selu": "nn.Sequential(nn.Linear(6, 6), nn.SELU())",
    "softplus": "nn.Sequential(nn.Linear(6, 6), nn.Softplus())",
    "leaky": "nn.Sequential(nn.Linear(6, 6), nn.LeakyReLU(0.2))",
    "prelu": "nn.Sequential(nn.Linear(6, 6), nn.PReLU())",
    "hardtanh": "nn.Sequential(nn.Linear(6, 6), nn.Hardtanh())",
    "sigmoid": "nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())",
    "softmax": "nn.Sequential(nn.Linear(6, 6), nn.Softmax(dim=1))",
    "log_softmax": "nn.Sequential(nn.Linear(6, 6), nn.LogSoftmax(dim=1))",
    "layer_norm": "nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6))",
    "batch_norm": "nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))",
    "group_norm": "nn.Sequential(nn.Linear(6, 6), nn.GroupNorm(2, 6))",
    "dropout": "nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))",
    "no_bias": "nn.Sequential(nn.Linear(6, 6, bias=False))",
    "conv1d": "nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 4, 2), nn.Flatten())",
    "conv2d": "nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, 2, padding=1), nn.Flatten())",
    "transposed": "nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ConvTranspose1d(2, 2, 2), nn.Flatten())",
    "max_pool": "nn.Sequential(nn.Linear(6, 6), nn.Unflatten(1, (2, 3)), nn.MaxPool1d(2), nn.Flatten())",
    "avg_pool": "nn.Sequential(nn.Linear(6, 6), nn.Unflatten(1, (2, 3)), nn.AvgPool1d(2), nn.Flatten())",
    "adaptive": "nn.Sequential(nn.Linear(6, 6), nn.Unflatten(1, (2, 3)), nn.AdaptiveAvgPool1d(1), nn.Flatten())",
    "two_shared": "nn.Sequential(*[nn.Linear(6, 6)] * 2)",
    "bilinear": "Twice(nn.Bilinear(6, 6, 4))",
    "lstm": "First(nn.LSTM(6, 5, batch_first=True))",
    "lstm_two": "First(nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True))",
    "gru": "First(nn.GRU(6, 5, batch_first=True))",
    "rnn": "First(nn.RNN(6, 5, batch_first=True))",
    "attention": "Attends(nn.MultiheadAttention(6, 2, batch_first=True))",
    "encoder": "First(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), whole=True)",
}  # fmt: skip

LOSSES = {
    "squares": "F.mse_loss(made, torch.zeros_like(made))",
    "mean": "made.pow(2).mean()",
    "absolute": "made.abs().sum()",
    "huber": "F.smooth_l1_loss(made, torch.ones_like(made))",
    "entropy": "F.cross_entropy(made, made.argmax(1).detach())",
    "logistic": "F.binary_cross_entropy_with_logits(made, torch.ones_like(made))",
    "log_sum": "torch.logsumexp(made, dim=1).mean()",
    "norm": "made.norm()",
    "cosine": "1 - F.cosine_similarity(made, made.roll(1, 0)).mean()",
}

OPTIMIZERS = {
    "sgd": "torch.optim.SGD(model.parameters(), lr=0.1)",
    "momentum": "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)",
    "adam": "torch.optim.Adam(model.parameters(), lr=1e-2)",
    "amsgrad": "torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)",
    "adamw": "torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)",
    "rmsprop": "torch.optim.RMSprop(model.parameters(), lr=1e-2, momentum=0.5)",
}

BODIES = {
    "usual": """
optimizer.zero_grad()
made = model(x)
loss = LOSS
loss.backward()
optimizer.step()
return loss
""",
    "cleared last": """
made = model(x)
loss = LOSS
loss.backward()
optimizer.step()
optimizer.zero_grad()
return loss.detach()
""",
    "clipped": """
optimizer.zero_grad()
made = model(x)
loss = LOSS
loss.backward()
norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
optimizer.step()
return {"loss": loss, "norm": norm}
""",
    "two backwards": """
optimizer.zero_grad()
made = model(x)
loss = LOSS
loss.backward()
made = model(x * 0.5)
(LOSS).backward()
optimizer.step()
return loss, made.detach()
""",
    "zeros": """
optimizer.zero_grad(set_to_none=False)
made = model(x)
loss = LOSS
loss.backward()
optimizer.step()
return [loss.detach(), made.detach().mean()]
""",
    "functional": """
made = model(x)
loss = LOSS
grads = torch.autograd.grad(loss, list(model.parameters()))
with torch.no_grad():
    for p, g in zip(model.parameters(), grads):
        p.sub_(g, alpha=0.1)
return loss
""",
    "noisy": """
optimizer.zero_grad()
made = model(x + 0.1 * torch.randn_like(x))
loss = LOSS
loss.backward()
optimizer.step()
return loss
""",
}

WRAPPERS = """
class First(nn.Module):
    def __init__(self, inner, whole=False):
        super().__init__()
        self.inner, self.whole = inner, whole

    def forward(self, x):
        made = self.inner(x.reshape(2, -1, 6))
        return (made if self.whole else made[0]).flatten(1)


class Twice(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x, x)


class Attends(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        x = x.reshape(2, -1, 6)
        return self.inner(x, x, x, need_weights=False)[0].flatten(1)
"""


def step_of(layer: str, loss: str, optimizer: str, body: str) -> Callable[[Any], Step]:
    """A step made of these parts, for an engine."""
    inner = BODIES[body].strip().replace("LOSS", LOSSES[loss]).replace("\n", "\n        ")
    text = f"""
def make(torch):
    nn, F = torch.nn, torch.nn.functional
    {WRAPPERS.strip().replace(chr(10), chr(10) + "    ")}
    torch.manual_seed(3)
    model = {LAYERS[layer]}
    optimizer = {OPTIMIZERS[optimizer]}

    def step(x):
        {inner}

    return step, model, optimizer
"""
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, f"{layer}, {loss}, {optimizer}, {body}", "exec"), scope)

    def made(torch: Any) -> Step:
        step, model, _ = scope["make"](torch)
        step.model = model
        return step, lambda nr: (batch(torch, nr),)

    return made


def batch(torch: Any, nr: int) -> Any:
    """Other numbers each time, in the same shape."""
    return torch.linspace(-1.0, 1.0, 24).view(4, 6).sin() * (1 + 0.1 * nr)


def _chosen() -> None:
    """Every part at least once, in changing company."""
    layers, losses = list(LAYERS), list(LOSSES)
    optimizers, bodies = list(OPTIMIZERS), list(BODIES)
    for nr in range(66):
        parts = (
            layers[nr % len(layers)],
            losses[(nr + nr // len(layers)) % len(losses)],
            optimizers[(nr * 5) % len(optimizers)],
            bodies[(nr * 3) % len(bodies)],
        )
        STEPS[", ".join(parts)] = step_of(*parts)


_chosen()
