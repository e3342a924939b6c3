"""Models whose training steps are measured: `MODELS[name](torch)` gives one step to run.

Each takes the module it runs on, PyTorch or gradscope's runtime, and returns a function without
arguments that does one whole step: forward, loss, backward, optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Step = Callable[[], object]


@dataclass(frozen=True)
class Model:
    """One model: how its step is made, and how many times PyTorch's time it may take."""

    step: Callable[[Any], Step]
    limit: float
    rounds: int = 30


def mlp(torch: Any) -> Step:
    """784-256-10, batches of 64, SGD with momentum."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(64, 784), torch.randint(0, 10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def gpt(torch: Any) -> Step:
    """4 layers, d=128, 4 heads, T=64, batches of 8, AdamW."""
    nn, functional = torch.nn, torch.nn.functional
    width, heads, length, words = 128, 4, 64, 256

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, size, _ = x.shape
            parts = self.attention(self.before(x)).split(width, dim=2)
            query, key, value = (
                part.view(batch, size, heads, width // heads).transpose(1, 2) for part in parts
            )
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).contiguous().view(batch, size, width))
            return x + self.narrow(functional.gelu(self.wide(self.after(x))))

    class Gpt(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(4)])
            self.last = nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    tokens = torch.randint(0, words, (8, length + 1))
    given, wanted = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

    def step() -> None:
        loss = functional.cross_entropy(model(given).view(-1, words), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def lstm(torch: Any) -> Step:
    """One LSTM layer of 128 over 50 steps, batches of 16, Adam."""
    nn = torch.nn
    torch.manual_seed(0)
    model, head = nn.LSTM(128, 128), nn.Linear(128, 10)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    sequences, labels = torch.randn(50, 16, 128), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        out, _ = model(sequences)
        nn.functional.cross_entropy(head(out[-1]), labels).backward()
        optimizer.step()

    return step


def resnet18(torch: Any, side: int = 32) -> Step:
    """ResNet-18 on 32×32, batches of 8, SGD with momentum and weight decay."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.shortcut = nn.Sequential()
            if stride != 1 or before != width:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
                )

        def forward(self, x: Any) -> Any:
            out = functional.relu(self.bn1(self.conv1(x)))
            return functional.relu(self.bn2(self.conv2(out)) + self.shortcut(x))

    torch.manual_seed(0)
    widths, strides = [64, 64, 64, 128, 128, 256, 256, 512, 512], [1, 1, 2, 1, 2, 1, 2, 1]
    blocks = [Block(*each) for each in zip(widths, widths[1:], strides, strict=False)]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    model = nn.Sequential(*stem, *blocks, *last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images, labels = torch.randn(8, 3, side, side), torch.randint(0, 10, (8,))

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def adam(torch: Any) -> Step:
    """A step of Adam over 200 tensors of 64×64."""
    torch.manual_seed(0)
    parameters = [torch.randn(64, 64, requires_grad=True) for _ in range(200)]
    for parameter in parameters:
        parameter.grad = torch.randn(64, 64)
    step: Step = torch.optim.Adam(parameters, lr=1e-3).step
    return step


RESNET = "ResNet-18 on 32×32, batch 8"
GPT = "GPT, 4 layers of 128, T=64, batch 8"
MODELS = {
    "MLP 784-256-10, batch 64": Model(mlp, 0.95, rounds=60),
    "LSTM of 128, T=50, batch 16": Model(lstm, 1.0),
    GPT: Model(gpt, 1.1),
    RESNET: Model(resnet18, 0.95, rounds=12),
    "Adam over 200 tensors": Model(adam, 1.0, rounds=60),
}
