"""diffusers: a tiny UNet learns to predict noise, an EMA of it denoises."""
# needs: diffusers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
schedule = DDPMScheduler(num_train_timesteps=20)
ema = EMAModel(model.parameters(), decay=0.9)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
clean = torch.randn(4, 1, 8, 8)
for step in range(2):
    noise, times = torch.randn_like(clean), torch.randint(0, 20, (4,))
    predicted = model(schedule.add_noise(clean, noise, times), times).sample
    loss = torch.nn.functional.mse_loss(predicted, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.step(model.parameters())
    print(step, loss.item().hex(), model.conv_in.weight.grad.norm().item().hex())
ema.copy_to(model.parameters())
with torch.no_grad():
    print(schedule.step(model(clean, 3).sample, 3, clean).prev_sample.sum().item().hex())
