"""A learned filter in the frequency domain: complex parameters, FFT, conjugates."""
# slow

import torch

torch.manual_seed(0)
signal = torch.randn(4, 64)
target = torch.roll(signal, 3, dims=1)
response = torch.nn.Parameter(torch.ones(33, dtype=torch.complex64))
optimizer = torch.optim.Adam([response], lr=0.05)
for step in range(5):
    out = torch.fft.irfft(torch.fft.rfft(signal) * response.conj(), n=64)
    loss = (out - target).square().mean() + 1e-3 * response.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), torch.view_as_real(response.grad).norm().item().hex())
