"""Views that take a shape's dims in another order are told; what was turned before is not."""

from __future__ import annotations

import ast

from gradscope.record.acts.source.reorders import reorders

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
