"""diffusers with peft: adapters in a UNet's attention, recomputed blocks, accumulation, an EMA of the adapters."""
# needs: diffusers peft
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from diffusers import DDPMScheduler, UNet2DConditionModel
from diffusers.training_utils import EMAModel, cast_training_params
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

torch.manual_seed(0)
unet = UNet2DConditionModel(
    sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=8, attention_head_dim=4,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
)
unet.requires_grad_(False)
unet.add_adapter(LoraConfig(r=2, lora_alpha=4, init_lora_weights="gaussian", target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
unet.to(torch.bfloat16)
cast_training_params(unet, dtype=torch.float32)
unet.enable_gradient_checkpointing()
trained = [p for p in unet.parameters() if p.requires_grad]
ema, schedule, optimizer = EMAModel(trained, decay=0.9), DDPMScheduler(num_train_timesteps=20), torch.optim.AdamW(trained, lr=1e-3)
latents, words = torch.randn(2, 4, 8, 8), torch.randn(2, 3, 8, dtype=torch.bfloat16)
for step in range(4):
    noise, times = torch.randn_like(latents), torch.randint(0, 20, (2,))
    with torch.autocast("cpu", torch.bfloat16):
        out = unet(schedule.add_noise(latents, noise, times), times, words).sample
    loss = torch.nn.functional.mse_loss(out.float(), noise) / 2
    loss.backward()
    print(step, loss.item().hex(), trained[0].grad.norm().item().hex())
    if step % 2:
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema.step(trained)
state = get_peft_model_state_dict(unet)
print(len(state), sum(each.norm() for each in state.values()).item().hex())
