"""transformers: a small CLIP pulls images to their captions, first with its vision half frozen."""
# needs: transformers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import transformers
from transformers import CLIPConfig, CLIPModel

transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
text = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 12, "eos_token_id": 49, "bos_token_id": 48, "pad_token_id": 1}
vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
ids = torch.randint(2, 48, (5, 8))
ids[:, -1] = 49
pixels = torch.rand(5, 3, 16, 16)
model.vision_model.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step in range(4):
    if step == 2:
        model.vision_model.requires_grad_(True)
        optimizer.add_param_group({"params": list(model.vision_model.parameters()), "lr": 1e-4})
    out = model(input_ids=ids, pixel_values=pixels, return_loss=True)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6052)
    print(step, out.loss.item().hex(), model.text_projection.weight.grad.norm().item().hex(), model.logit_scale.item().hex())
model.eval()
with torch.inference_mode():
    print(model(input_ids=ids, pixel_values=pixels).logits_per_image.argmax(1).tolist())
