"""x-transformers: an autoregressive decoder with rotary embeddings, and a vision encoder."""
# needs: x_transformers
# slow

import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=30, max_seq_len=16, attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=64, rotary_pos_emb=True, ff_glu=True)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ids = torch.randint(0, 30, (3, 12))
for step in range(3):
    loss = model(ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), sum(p.grad.norm() for p in model.parameters() if p.grad is not None).item().hex())
vit = ViTransformerWrapper(image_size=8, patch_size=4, num_classes=3, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8))
loss = torch.nn.functional.cross_entropy(vit(torch.randn(4, 3, 8, 8)), torch.randint(0, 3, (4,)))
loss.backward()
print(loss.item().hex())
