"""Programs with layers: each is called with `torch`, and runs a backward or more."""

import importlib


def linear(torch):
    model = torch.nn.Linear(4, 2)
    model(torch.randn(3, 4)).sum().backward()


def perceptron(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    nn.functional.cross_entropy(model(torch.randn(5, 4)), torch.tensor([0, 1, 2, 1, 0])).backward()


def activations(torch):
    nn = torch.nn
    x = torch.randn(3, 4, requires_grad=True)
    for kind in (
        nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus,
        nn.Hardtanh, nn.SELU, nn.Mish, nn.LogSigmoid, nn.Softsign, nn.Hardswish, nn.Hardsigmoid,
        nn.CELU, nn.ReLU6, nn.Tanhshrink, nn.Softshrink, nn.Hardshrink,
    ):  # fmt: skip
        kind()(x).sum().backward()


def prelu(torch):
    model = torch.nn.PReLU(3)
    model(torch.randn(2, 3, 4)).mean().backward()


def convolution(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2))
    model(torch.randn(2, 2, 8, 8)).pow(2).mean().backward()


def convolution_of_signals(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Conv1d(2, 4, 3, dilation=2), nn.Tanh(), nn.ConvTranspose1d(4, 2, 3))
    model(torch.randn(2, 2, 12)).sum().backward()


def pooling(torch):
    nn = torch.nn
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    y = nn.MaxPool2d(2)(x) + nn.AvgPool2d(2)(x)
    nn.AdaptiveAvgPool2d(1)(y).flatten(1).sum().backward()


def adaptive_maximum(torch):
    x = torch.randn(2, 3, 7, requires_grad=True)
    torch.nn.AdaptiveMaxPool1d(3)(x).sum().backward()


def batch_normalization(torch):
    model = torch.nn.BatchNorm1d(4)
    model(torch.randn(6, 4)).pow(2).sum().backward()
    model.eval()
    model(torch.randn(6, 4)).pow(2).sum().backward()


def layer_normalization(torch):
    model = torch.nn.LayerNorm(4)
    model(torch.randn(6, 4, requires_grad=True)).pow(2).sum().backward()


def group_normalization(torch):
    model = torch.nn.GroupNorm(2, 4)
    model(torch.randn(2, 4, 5)).pow(2).sum().backward()


def instance_normalization(torch):
    model = torch.nn.InstanceNorm1d(3, affine=True)
    model(torch.randn(2, 3, 5)).pow(2).sum().backward()


def root_mean_square_normalization(torch):
    model = torch.nn.RMSNorm(4)
    model(torch.randn(2, 4, requires_grad=True)).sum().backward()


def embedding(torch):
    model = torch.nn.Embedding(10, 4, padding_idx=0)
    model(torch.tensor([[1, 2, 0], [4, 1, 1]])).sum(1).pow(2).mean().backward()


def dropout(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    model(torch.randn(5, 4)).mean().backward()
    model.eval()
    model(torch.randn(5, 4)).mean().backward()


def attention(torch):
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    model(x, x, x)[0].sum().backward()


def attention_by_hand(torch):
    q, k, v = (torch.randn(2, 5, 8, requires_grad=True) for _ in range(3))
    scores = q @ k.transpose(-2, -1) / 8**0.5
    mask = torch.tril(torch.ones(5, 5)) == 0
    (scores.masked_fill(mask, float("-inf")).softmax(-1) @ v).sum().backward()


def scaled_dot_product(torch):
    q, k, v = (torch.randn(2, 2, 5, 8, requires_grad=True) for _ in range(3))
    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()


def encoder_layer(torch):
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model(torch.randn(2, 5, 8)).sum().backward()


def recurrent_cell(torch):
    cell = torch.nn.LSTMCell(3, 4)
    h, c = torch.zeros(2, 4), torch.zeros(2, 4)
    for x in torch.randn(5, 2, 3):
        h, c = cell(x, (h, c))
    (h.sum() + c.sum()).backward()


def gated_cell(torch):
    cell = torch.nn.GRUCell(3, 4)
    h = torch.zeros(2, 4)
    for x in torch.randn(4, 2, 3):
        h = cell(x, h)
    h.sum().backward()


def plain_recurrence(torch):
    model = torch.nn.RNN(3, 4, num_layers=2)
    model(torch.randn(5, 2, 3))[0].sum().backward()


def gated_recurrence(torch):
    model = torch.nn.GRU(3, 4, bidirectional=True)
    model(torch.randn(5, 2, 3))[0].sum().backward()


def shared_layer(torch):
    layer = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4)
    layer(torch.tanh(layer(torch.tanh(layer(x))))).sum().backward()


def residual(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return x + self.second(torch.relu(self.first(x)))

    nn.Sequential(Block(), Block())(torch.randn(3, 4)).sum().backward()


def upsampling(torch):
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    torch.nn.Upsample(scale_factor=2)(x).pow(2).sum().backward()
    torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear").sum().backward()


def padding(torch):
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    for mode in ("constant", "reflect", "replicate", "circular"):
        torch.nn.functional.pad(x, (1, 1, 1, 1), mode=mode).pow(2).sum().backward()


def weight_normalization(torch):
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    model(torch.randn(4, 3)).sum().backward()


def rectified_recurrence(torch):
    model = torch.nn.RNN(
        3, 4, num_layers=2, batch_first=True, nonlinearity="relu", bidirectional=True
    )
    out, h = model(torch.randn(2, 5, 3))
    (out.sum() + h.sum()).backward()


def projected_recurrence(torch):
    out, (h, c) = torch.nn.LSTM(3, 4, proj_size=2)(torch.randn(5, 2, 3))
    (out.sum() + h.sum() + c.sum()).backward()


def packed_recurrence(torch):
    packing = importlib.import_module(f"{torch.__name__}.nn.utils.rnn")
    x = packing.pack_padded_sequence(torch.randn(5, 2, 3), torch.tensor([5, 3]))
    out, _ = torch.nn.LSTM(3, 4)(x)
    packing.pad_packed_sequence(out)[0].sum().backward()


def bags(torch):
    rows = torch.tensor([[1, 2, 4], [4, 3, 2]])
    weights = torch.rand(2, 3, requires_grad=True)
    for mode in ("sum", "mean", "max"):
        torch.nn.EmbeddingBag(10, 3, mode=mode)(rows).pow(2).sum().backward()
    padded = torch.nn.EmbeddingBag(10, 3, mode="sum", padding_idx=2)
    padded(rows, per_sample_weights=weights).sum().backward()
