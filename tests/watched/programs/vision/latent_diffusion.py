"""diffusers: an autoencoder of images, then noise in its latent space, predicted with a condition left out at times."""
# needs: diffusers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from diffusers import AutoencoderKL, DDIMScheduler, FlowMatchEulerDiscreteScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import compute_snr

torch.manual_seed(0)
coder = AutoencoderKL(
    in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"), up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"), block_out_channels=(8, 8), latent_channels=2,
    norm_num_groups=4, sample_size=8, layers_per_block=1,
)
images = torch.rand(2, 3, 8, 8) * 2 - 1
optimizer = torch.optim.AdamW(coder.parameters(), lr=1e-3)
for step in range(2):
    posterior = coder.encode(images).latent_dist
    loss = (coder.decode(posterior.sample()).sample - images).abs().mean() + 1e-4 * posterior.kl().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("coder", step, loss.item().hex(), coder.quant_conv.weight.grad.norm().item().hex())
coder.requires_grad_(False).eval()
unet = UNet2DConditionModel(
    sample_size=4, in_channels=2, out_channels=2, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4, cross_attention_dim=8, attention_head_dim=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
)
unet.enable_gradient_checkpointing()
schedule = DDIMScheduler(num_train_timesteps=50, prediction_type="v_prediction", rescale_betas_zero_snr=False)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
rates = get_scheduler("cosine", optimizer, num_warmup_steps=1, num_training_steps=4)
words = torch.randn(2, 3, 8)
latents = coder.encode(images).latent_dist.mode() * 0.18
for step in range(2):
    noise, times = torch.randn_like(latents), torch.randint(0, 50, (2,))
    condition = torch.where(torch.rand(2, 1, 1) < 0.3, 0.0, words)
    out = unet(schedule.add_noise(latents, noise, times), times, condition).sample
    weights = compute_snr(schedule, times).clamp(max=5) / (compute_snr(schedule, times) + 1)
    loss = ((out - schedule.get_velocity(latents, noise, times)).square().mean((1, 2, 3)) * weights).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    rates.step()
    optimizer.zero_grad()
    print("unet", step, loss.item().hex(), rates.get_last_lr()[0].hex())
unet.eval()
schedule.set_timesteps(3)
x = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    for time in schedule.timesteps:
        plain, told = unet(torch.cat([x, x]), time, torch.cat([torch.zeros_like(words), words])).sample.chunk(2)
        x = schedule.step(plain + 3.0 * (told - plain), time, x, eta=0.0).prev_sample
    print(coder.decode(x / 0.18).sample.mean().item().hex())
unet.train()
flow = FlowMatchEulerDiscreteScheduler(num_train_timesteps=50)
sigma = flow.sigmas[torch.tensor([10, 30])].view(-1, 1, 1, 1)
noise = torch.randn_like(latents)
loss = (unet((1 - sigma) * latents + sigma * noise, flow.timesteps[torch.tensor([10, 30])], words).sample - (noise - latents)).square().mean()
loss.backward()
print("flow", loss.item().hex())
