"""Attention and transformers as modules: weights, results, graphs and refusals are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime import oracle
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import ENGINES

pytestmark = pytest.mark.filterwarnings("ignore")

SELF, OTHERS = "m(x, x, x{})".format, "m(x, y, y{})".format
HIDDEN = ", key_padding_mask=torch.tensor([[False] * 5, [False, False, False, True, True]])"
CAUSAL = ", attn_mask=nn.Transformer.generate_square_subsequent_mask(5)"
ATTENTIONS = [
    ("nn.MultiheadAttention(8, 2, batch_first=True)", call)
    for call in (
        SELF(""),
        SELF(", need_weights=False"),
        SELF(", average_attn_weights=False"),
        SELF(HIDDEN),
        SELF(HIDDEN + ", need_weights=False"),
        SELF(CAUSAL),
        SELF(CAUSAL + ", is_causal=True, need_weights=False"),
        SELF(CAUSAL + HIDDEN + ", need_weights=False"),
        SELF(", attn_mask=torch.ones(4, 5, 5).tril() == 0, need_weights=False"),
        OTHERS(""),
        OTHERS(", need_weights=False"),
        "m(x, y, z)",
        "m(x[0], x[0], x[0])",
        "m(x[0], y[0], y[0], need_weights=False)",
    )
] + [
    ("nn.MultiheadAttention(8, 2)", SELF("")),
    ("nn.MultiheadAttention(8, 2, dropout=0.3, bias=False, batch_first=True)", SELF("")),
    ("nn.MultiheadAttention(8, 4, dropout=0.3)", SELF(", need_weights=False")),
    ("nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True)", SELF(CAUSAL + HIDDEN)),
    ("nn.MultiheadAttention(8, 2, add_zero_attn=True, batch_first=True)", SELF(HIDDEN)),
    ("nn.MultiheadAttention(8, 2, kdim=8, vdim=6, batch_first=True)", "m(x, y, z[:, :, :6])"),
]
LAYER = "d_model=8, nhead=2, dim_feedforward=12, dropout=0.0"
PADDING = "src_key_padding_mask=torch.tensor([[False] * 5, [False, False, False, True, True]])"
SUBSEQUENT = "nn.Transformer.generate_square_subsequent_mask(5)"
TRANSFORMERS = [
    (f"nn.TransformerEncoderLayer({LAYER})", "m(x)"),
    (f"nn.TransformerEncoderLayer({LAYER}, norm_first=True, activation='gelu')", "m(x)"),
    (f"nn.TransformerEncoderLayer({LAYER}, activation=torch.tanh, bias=False)", "m(x[0])"),
    (f"nn.TransformerEncoderLayer({LAYER}, batch_first=True)", f"m(x, {SUBSEQUENT})"),
    (f"nn.TransformerEncoderLayer({LAYER}, batch_first=True)", f"m(x, {PADDING})"),
    (f"nn.TransformerDecoderLayer({LAYER})", "m(x, y)"),
    (f"nn.TransformerDecoderLayer({LAYER}, norm_first=True, batch_first=True)", "m(x, y)"),
    (
        f"nn.TransformerEncoder(nn.TransformerEncoderLayer({LAYER}, batch_first=True), 2)",
        f"m(x, {PADDING})",
    ),
    (
        f"nn.TransformerEncoder(nn.TransformerEncoderLayer({LAYER}), 2, nn.LayerNorm(8))",
        "m(x.transpose(0, 1), mask=" + SUBSEQUENT + ")",
    ),
    (f"nn.TransformerDecoder(nn.TransformerDecoderLayer({LAYER}), 2)", "m(x, y)"),
    (
        "nn.Transformer(8, 2, 1, 2, 12, dropout=0.0, batch_first=True)",
        f"m(x, y, tgt_mask={SUBSEQUENT}, {PADDING})",
    ),
    ("nn.Transformer(8, 2, 1, 1, 12, dropout=0.2)", "m(x, y)"),
]


CALLS = {f"{code}: {call}": (code, call) for code, call in ATTENTIONS + TRANSFORMERS}


@as_pytorch_answered({"nn/transformers": CALLS})
def test_results_and_gradients_are_pytorchs(torch: Any, asked: Any) -> Any:
    return trained(torch, *asked)


def trained(engine: Any, code: str, call: str) -> tuple[Any, Any, list[Any]]:
    """How a module is written and what it keeps, the graph of a call, all numbers."""
    scope = inputs(engine)
    scope["m"] = module = eval(code, scope)
    result = eval(call, scope)
    outputs = [t for t in (result if isinstance(result, tuple) else (result,)) if t is not None]
    graph = oracle.graph_of(outputs)
    sum((o * o).sum() for o in outputs).backward()
    wanted = [*module.parameters(), *(scope[name] for name in "xyz")]
    grads = [p.grad for p in wanted if p.grad is not None]
    kept = (repr(module), [(name, tuple(t.shape)) for name, t in module.state_dict().items()])
    tensors = [*outputs, *module.state_dict().values(), *grads]
    return kept, graph, [t.detach().numpy() for t in tensors]


def inputs(engine: Any) -> dict[str, Any]:
    engine.manual_seed(0)
    rng = np.random.default_rng(0)
    given = {
        name: engine.from_numpy(rng.normal(size=(2, 5, 8)).astype(np.float32)).requires_grad_(True)
        for name in "xyz"
    }
    return {"torch": engine, "nn": engine.nn, **given}


@as_pytorch_answered({"nn/transformers_evaluated": CALLS})
def test_evaluation_without_gradients_is_pytorchs(torch: Any, asked: Any) -> Any:
    """PyTorch then takes short ways, one of which leaves zeros where there is padding."""
    code, call = asked
    scope = inputs(torch)
    scope["m"] = eval(code, scope).eval()
    with torch.no_grad():
        made = eval(call, scope)
    outputs = [t for t in (made if isinstance(made, tuple) else (made,)) if t is not None]
    return [(o, o.stride()) for o in outputs]


REFUSED = """nn.MultiheadAttention(8, 3)
nn.MultiheadAttention(0, 1)
nn.MultiheadAttention(8, 2)(x[0, 0], x, x)
nn.MultiheadAttention(8, 2)(x, x[0], x)
nn.MultiheadAttention(8, 2)(x[0], x, x)
nn.MultiheadAttention(8, 2)(x, x, x, key_padding_mask=x[0, 0] > 0)
nn.MultiheadAttention(8, 2)(x[0], x[0], x[0], key_padding_mask=x[0] > 0)
nn.MultiheadAttention(8, 2)(x, x, x, attn_mask=x[0, 0])
nn.MultiheadAttention(8, 2)(x, x, x, attn_mask=x[0])
nn.MultiheadAttention(8, 2)(x[0], x[0], x[0], attn_mask=x)
nn.MultiheadAttention(8, 2)(x, x, x, attn_mask=torch.ones(2, 2).long())
nn.MultiheadAttention(8, 2)(x, x, x, is_causal=True)
nn.MultiheadAttention(8, 2)(x[:, :, :4], x, x)
nn.MultiheadAttention(8, 2)(x, x[:, :3], x)
nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x, key_padding_mask=x[:, :3, 0] > 0)
nn.MultiheadAttention(8, 2, kdim=4)(x, x, x)
nn.TransformerEncoderLayer(8, 2, activation='tanh')
nn.Transformer(8, 2, 1, 1, 4)(x, x[:, :3])
nn.Transformer(4, 2, 1, 1, 4)(x, x)"""


@as_pytorch_answered({"nn/transformers_refused": REFUSED.split("\n")})
def test_what_they_refuse_is_pytorchs(torch: Any, code: str) -> Any:
    with pytest.raises(Exception) as caught:
        eval(code, inputs(torch))
    return type(caught.value).__name__, str(caught.value).partition("\n")[0]


@pytest.mark.torch
def test_what_is_not_computed_without_padding_is_said() -> None:
    said = []
    for engine in ENGINES:
        nn = engine.nn
        for options in ({}, {"batch_first": True, "norm_first": True}, {"bias": False}):
            with pytest.warns(UserWarning, match="enable_nested") as caught:
                nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 4, **options), 1)
            said.append(str(caught[0].message))

    assert said[:3] == said[3:]
