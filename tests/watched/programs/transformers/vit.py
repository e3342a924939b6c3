"""A tiny ViT on noise, eager attention, in bfloat16 autocast."""
# needs: transformers
# slow

import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
config = ViTConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=16, patch_size=4, num_labels=4, attn_implementation="eager")
model = ViTForImageClassification(config)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x, y = torch.randn(6, 3, 16, 16), torch.randint(0, 4, (6,))
for step in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(pixel_values=x, labels=y).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.classifier.weight.grad.norm().item().hex())
