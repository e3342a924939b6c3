"""Samples of recurrent layers, of what packs their sequences, and of drawn distributions."""

from __future__ import annotations

from tests.runtime.core.ops.samples.randomness import SEED
from tests.runtime.core.ops.written import cases
from tests.runtime.oracle import Fixed, Real

# -- recurrent layers and cells: input and state of 3 numbers, 2 samples, 4 steps

STEP, STATE = (2, 3), (2, 2)
for _name, _gates in {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.items():
    _weights = [(2 * _gates, 3), (2 * _gates, 2)]
    _hidden = "(z, z)" if _name == "lstm" else "z"
    _bias = f"torch.linspace(-1, 1, {2 * _gates}, dtype=x.dtype)"
    cases(
        f"{_name}_cell", [STEP, _weights[0], STATE, _weights[1]],
        f"torch.{_name}_cell(x, {_hidden}, y, u)",
        f"b = {_bias}\ntorch.{_name}_cell(x, {_hidden}, y, u, b, b)",
        dtypes=(),
    )  # fmt: skip
    cases(
        _name, [(4, 2, 3), _weights[0], (1, 2, 2), _weights[1]],
        f"torch.{_name}(x, {_hidden}, [y, u], False, 1, 0.0, True, False, False)",
        f"torch.{_name}(x.transpose(0, 1), {_hidden}, [y, u], False, 1, 0.0, True, False, True)",
        dtypes=(),
    )  # fmt: skip
cases(
    "_pack_padded_sequence", [(4, 2, 3)],
    "torch._VF._pack_padded_sequence(x, torch.tensor([4, 2]), False)", dtypes=(),
)  # fmt: skip
cases(
    "_pad_packed_sequence", [(6, 3)],
    "torch._VF._pad_packed_sequence(x, torch.tensor([2, 2, 1, 1]), False, 0.0, 4)", dtypes=(),
)  # fmt: skip
cases(
    "_ctc_loss", [(5, 2, 4)],
    "torch._ctc_loss(x.log_softmax(2), torch.tensor([[1, 2], [3, 1]]), [5, 5], [2, 2])",
    dtypes=(), order=1,
)  # fmt: skip
cases(
    "linear_cross_entropy", [(5, 3), (4, 3), Fixed([0, 3, 1, 2, 0])],
    "F.linear_cross_entropy(x, y, z)", "F.linear_cross_entropy(x, y, z, reduction='sum')",
    dtypes=(),
)  # fmt: skip

# -- weights and tables

cases(
    "norm_except_dim", [(3, 4)], "torch.norm_except_dim(x)", "torch.norm_except_dim(x, 2, 1)",
    "torch.norm_except_dim(x, 1, 0)", dtypes=(),
)  # fmt: skip
cases("_weight_norm", [(3, 4), Real((3, 1), 0.5, 2)], "torch._weight_norm(x, y, 0)", dtypes=())
cases(
    "embedding_renorm_", [(5, 3)],
    "torch.embedding_renorm_(x.clone(), torch.tensor([0, 3, 3]), 0.5, 2.0)",
    dtypes=("float32",), grad=False,
)  # fmt: skip

# -- what is drawn

for _text in ("torch.native_dropout(x, 0.4, True)", "torch.native_dropout(x, 0.4, False)"):
    cases("native_dropout", [(3, 4)], SEED + _text, dtypes=(), strided=False, grad=False)
for _name in ("dropout_", "feature_dropout_"):
    _text = f"torch.{_name}(x.clone(), 0.5, True)"
    cases(_name, [(3, 4, 2)], SEED + _text, dtypes=(), strided=False)
cases(
    "feature_dropout", [(3, 4, 2)], f"{SEED}torch.feature_dropout(x, 0.5, True)",
    f"{SEED}torch.feature_dropout(x, 0.5, False)", dtypes=(), strided=False,
)  # fmt: skip
cases(
    "gumbel_softmax", [(3, 4)], f"{SEED}F.gumbel_softmax(x)",
    f"{SEED}F.gumbel_softmax(x, tau=0.5, hard=True)", dtypes=(), strided=False,
)  # fmt: skip
RATES = [Real((3, 4), 0.5, 5)]
for _name in ("poisson", "_standard_gamma", "_sample_dirichlet"):
    cases(_name, RATES, f"{SEED}torch.{_name}(x)", dtypes=(), strided=False, grad=False)
cases(
    "binomial", [Real((3, 4), 0.1, 0.9)], f"{SEED}torch.binomial(torch.full_like(x, 9), x)",
    dtypes=(), strided=False, grad=False,
)  # fmt: skip
cases(
    "_standard_gamma_grad", [Real((3, 4), 0.5, 5), Real((3, 4), 0.5, 5)],
    "torch._standard_gamma_grad(x, y)", dtypes=("float32",), grad=False,
)  # fmt: skip
cases(
    "_dirichlet_grad", [Real((3, 4), 0.1, 0.9), Real((3, 4), 0.5, 5), Real((3, 1), 5, 9)],
    "torch._dirichlet_grad(x, y, z.expand_as(y))", dtypes=("float32",), grad=False,
)  # fmt: skip
