"""Programs without layers: formulas, losses, shapes, matrices."""

import importlib


def polynomial(torch):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (3 * x**3 - 2 * x**2 + x - 1).sum().backward()


def one_used_often(torch):
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x + x.exp() * x - x / (1 + x)
    y.backward()


def broadcasting(torch):
    a, b = torch.randn(3, 1, requires_grad=True), torch.randn(4, requires_grad=True)
    (a * b + a / (b * b + 1)).sum().backward()


def trigonometry(torch):
    x = torch.linspace(0.1, 0.9, 5, requires_grad=True)
    y = x.sin() + x.cos() + x.tan() + x.asin() + x.acos() + x.atan()
    (y + x.sinh() + x.cosh() + torch.atan2(x, 1 - x)).sum().backward()


def logarithms(torch):
    x = torch.linspace(0.1, 0.9, 5, requires_grad=True)
    (x.log() + x.log1p() + x.log2() + x.log10() + x.exp() + x.expm1()).sum().backward()


def roots(torch):
    x = torch.linspace(0.1, 0.9, 5, requires_grad=True)
    (x.sqrt() + x.rsqrt() + x.reciprocal() + x.square() + x.abs()).sum().backward()


def special_functions(torch):
    x = torch.linspace(0.1, 0.9, 5, requires_grad=True)
    (x.erf() + x.erfc() + x.lgamma() + x.digamma() + torch.special.i0(x)).sum().backward()


def reductions(torch):
    x = torch.randn(3, 4, requires_grad=True)
    y = x.sum(0).sum() + x.mean(1).sum() + x.var() + x.std(0).sum() + x.prod() + x.norm()
    (y + x.logsumexp(1).sum() + x.amax(0).sum() + x.max() + x.min(1)[0].sum()).backward()


def running_sums(torch):
    x = torch.rand(3, 4, requires_grad=True)
    (x.cumsum(0) + x.cumprod(1) + x.flip(0) + x.roll(1, 0)).sum().backward()


def order_of_elements(torch):
    x = torch.randn(3, 4, requires_grad=True)
    (x.sort(1)[0] + x.topk(4)[0] + x.median(1, keepdim=True)[0]).sum().backward()


def shapes(torch):
    x = torch.randn(2, 3, 4, requires_grad=True)
    y = x.view(6, 4).t().reshape(2, 12).unsqueeze(1).squeeze(1).permute(1, 0).contiguous()
    (y.flatten() * x.transpose(0, 2).reshape(-1)).sum().backward()


def expanded(torch):
    x = torch.randn(3, requires_grad=True)
    (x.expand(4, 3) * x[:, None].repeat(1, 3).sum(1)).sum().backward()


def joined_and_split(torch):
    a, b = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    first, second = torch.cat([a, b], 1).split(3, 1)
    left, right = torch.stack([a, b]).unbind()
    (first * right + second.chunk(3, 1)[0] * left).sum().backward()


def indexing(torch):
    x = torch.randn(4, 5, requires_grad=True)
    y = x[0].sum() + x[1:3, ::2].sum() + x[torch.tensor([0, 2])].sum() + x[x > 0].sum()
    (y + x[..., -1].sum()).backward()


def gathered(torch):
    x = torch.randn(3, 4, requires_grad=True)
    index = torch.tensor([[0, 1], [1, 2], [3, 3]])
    y = x.gather(1, index).sum() + x.index_select(0, torch.tensor([2, 0])).pow(2).sum()
    (y + torch.zeros(3, 4).scatter_add(1, index, x[:, :2]).pow(2).sum()).backward()


def chosen(torch):
    x, y = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    z = torch.where(x > y, x * y, x + y) + torch.maximum(x, y) + torch.minimum(x, y)
    (z + x.clamp(-0.5, 0.5) + x.masked_fill(x < 0, 0.0)).sum().backward()


def triangles(torch):
    x = torch.randn(4, 4, requires_grad=True)
    (x.tril() @ x.triu() + x.diagonal().diag() + x.trace()).sum().backward()


def products_of_matrices(torch):
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    v = torch.randn(4, requires_grad=True)
    y = (a @ b).sum() + (a @ v).sum() + v @ v + torch.outer(v, v).sum()
    (y + torch.addmm(torch.zeros(3, 2), a, b).sum()).backward()


def batches_of_matrices(torch):
    a, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)
    (torch.bmm(a, b) + a @ b + torch.einsum("bij,bjk->bik", a, b)).sum().backward()


def linear_algebra(torch):
    x = torch.randn(3, 3, dtype=torch.float64)
    a = (x @ x.T + 3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    y = torch.linalg.solve(a, torch.ones(3, 1, dtype=torch.float64)).sum()
    (y + torch.linalg.inv(a).sum() + torch.logdet(a) + torch.linalg.det(a)).backward()


def factorizations(torch):
    x = torch.randn(3, 3, dtype=torch.float64)
    a = (x @ x.T + 3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    (torch.linalg.cholesky(a).sum() + torch.linalg.eigh(a)[0].sum()).backward()
    (torch.linalg.svd(a)[1].sum() + torch.linalg.qr(a)[1].pow(2).sum()).backward()


def losses(torch):
    functional = torch.nn.functional
    x, y = torch.rand(4, 3, requires_grad=True), torch.rand(4, 3)
    for loss in (
        functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss,
        functional.binary_cross_entropy, functional.binary_cross_entropy_with_logits,
        functional.kl_div, functional.poisson_nll_loss, functional.soft_margin_loss,
    ):  # fmt: skip
        loss(x, y).backward()


def losses_of_classes(torch):
    functional = torch.nn.functional
    x, y = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 2, 1, 1])
    functional.cross_entropy(x, y, label_smoothing=0.1).backward()
    functional.nll_loss(x.log_softmax(1), y, reduction="sum").backward()
    functional.multi_margin_loss(x, y).backward()


def losses_of_pairs(torch):
    functional = torch.nn.functional
    a, b = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    sign = torch.tensor([1.0, -1.0, 1.0, 1.0])
    functional.cosine_embedding_loss(a, b, sign).backward()
    functional.triplet_margin_loss(a, b, a.flip(0)).backward()
    functional.margin_ranking_loss(a[:, 0], b[:, 0], sign).backward()


def distances(torch):
    a, b = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3, requires_grad=True)
    (torch.cdist(a, b).sum() + torch.nn.functional.normalize(a).sum()).backward()
    torch.nn.functional.cosine_similarity(a, b[:4]).sum().backward()


def softmaxes(torch):
    x = torch.randn(3, 4, requires_grad=True)
    (x.softmax(1).log() + x.log_softmax(0) + torch.sigmoid(x).logit()).pow(2).sum().backward()


def complex_numbers(torch):
    x = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    y = (x * x.conj()).real.sum() + x.abs().sum() + torch.view_as_real(x).pow(2).sum()
    (y + torch.fft.fft(x).abs().sum()).backward()


def double_precision(torch):
    x = torch.randn(4, requires_grad=True)
    (x.double() * torch.arange(4.0, dtype=torch.float64)).to(torch.float32).sum().backward()


def windows(torch):
    x = torch.randn(1, 2, 6, 6, requires_grad=True)
    blocks = torch.nn.functional.unfold(x, 3)
    torch.nn.functional.fold(blocks, (6, 6), 3).pow(2).sum().backward()
    x.unfold(2, 3, 1).sum().backward()


def kinked(torch):
    x = torch.randn(5, requires_grad=True)
    (x.floor() + x.round() + x.sign() + x.frac() + x % 2 + torch.fmod(x, 2)).sum().backward()


def densities(torch):
    kinds = importlib.import_module(f"{torch.__name__}.distributions")
    a, b = torch.rand(3).add_(1).requires_grad_(), torch.rand(3).add_(1).requires_grad_()
    value = torch.full((3,), 0.4)
    for kind in (
        kinds.Normal, kinds.Beta, kinds.Gamma, kinds.Laplace, kinds.LogNormal, kinds.Cauchy,
        kinds.Gumbel,
    ):  # fmt: skip
        kind(a, b).log_prob(value).sum().backward()
    (kinds.Normal(a, b).entropy() + kinds.Beta(a, b).entropy()).sum().backward()


def grids(torch):
    a, b = torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)
    x, y = torch.meshgrid(a, b, indexing="xy")
    (x * y).sum().backward()
    torch.cartesian_prod(a, b).pow(2).sum().backward()


def spectrogram_and_back(torch):
    x, window = torch.randn(64, requires_grad=True), torch.hann_window(16)
    spectrum = torch.stft(x, 16, hop_length=8, window=window, return_complex=True)
    torch.istft(spectrum, 16, hop_length=8, window=window).pow(2).sum().backward()
