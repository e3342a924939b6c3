"""Views that take a shape's dims in another order are told; what was turned before is not."""

from __future__ import annotations

import ast

from gradscope.analysis.source.reorders import inferred, reorders

SCRIPT = """\
def embed(x, y, z):
    b, c, h, w = x.shape
    n, t, d = y.size()
    x.view(b, h * w, c)  # told
    y.contiguous().reshape(t, n, d)  # told
    x.view(b, c, h * w)
    x.view(b * c, h, w)
    y.view(n, heads, t, d // heads)
    x.permute(0, 2, 3, 1).reshape(b, h * w, c)
    z.view(b, h * w, c)
    x.view(b, -1, c)
    x = x.flatten(2).transpose(1, 2)
    return x.view(b, h * w, c)

def turned(x):
    b, c, h, w = x.shape
    h, w = h // 2, w // 2
    return x.view(b, h, w, c)
"""


def test_dims_in_another_order_are_told() -> None:
    told = [line for line, text in enumerate(SCRIPT.splitlines(), 1) if "# told" in text]

    assert [each.line for each in reorders(ast.parse(SCRIPT))] == told


INFERRED = """\
def forward(self, x):
    x = x.view(-1, 784)
    if x.ndim:
        x = self.a(x.reshape(-1, 4, 7)).view(8, -1)
    return x.flatten(1).view(-1)
"""


def test_views_whose_first_dim_follows_are_told_once() -> None:
    assert list(inferred(ast.parse(INFERRED))) == [(2,), (4,)]
