"""Models that run on PyTorch while they are watched: from graphs of few nodes to large arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.models import Step, lstm, resnet18


def tiny_model(torch: Any) -> Any:
    """8-16-16-4."""
    nn = torch.nn
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)
    )


def tiny(torch: Any) -> Step:
    """The same in training, in batches of 8, SGD: 16 nodes."""
    model = tiny_model(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, labels = torch.randn(8, 8), torch.randint(0, 4, (8,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()

    return step


def lstm_cell(torch: Any) -> Step:
    """An LSTM cell of 32 over 32 steps, written out, batches of 8, SGD."""
    torch.manual_seed(0)
    size, batch, length = 32, 8, 32
    wide = [torch.randn(size, 4 * size).mul_(0.1).requires_grad_() for _ in range(2)]
    bias = torch.zeros(4 * size, requires_grad=True)
    head = torch.nn.Linear(size, 4)
    optimizer = torch.optim.SGD([*wide, bias, *head.parameters()], lr=0.01)
    sequence, labels = torch.randn(length, batch, size), torch.randint(0, 4, (batch,))

    def step() -> None:
        optimizer.zero_grad()
        hidden = cell = torch.zeros(batch, size)
        for x in sequence:
            gates = x @ wide[0] + hidden @ wide[1] + bias
            enters, forgets, new, leaves = gates.chunk(4, dim=1)
            cell = torch.sigmoid(forgets) * cell + torch.sigmoid(enters) * torch.tanh(new)
            hidden = torch.sigmoid(leaves) * torch.tanh(cell)
        torch.nn.functional.cross_entropy(head(hidden), labels).backward()
        optimizer.step()

    return step


def encoder(torch: Any) -> Any:
    """6 encoder layers of 256, 4 heads."""
    nn = torch.nn
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def transformer(torch: Any) -> Step:
    """The same in training, T=128, batches of 4, AdamW."""
    nn = torch.nn
    model, head = encoder(torch), nn.Linear(256, 10)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-4)
    x, labels = torch.randn(4, 128, 256), torch.randint(0, 10, (4,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(model(x).mean(1)), labels).backward()
        optimizer.step()

    return step


FORWARDS = {
    "tiny MLP": (tiny_model, (8, 8)),
    "transformer, 6 layers of 256, T=128": (encoder, (4, 128, 256)),
}
"""Models by themselves, and the shape of what they take."""

WATCHED = {
    "tiny MLP": tiny,
    "LSTMCell of 32 steps": lstm_cell,
    "LSTM of 128, T=50": lstm,
    "ResNet-18 on 64×64, batch 8": partial(resnet18, side=64),
    "transformer, 6 layers of 256, T=128": transformer,
}
