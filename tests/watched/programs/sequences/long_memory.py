"""x-transformers: an encoder and a decoder, recurrence with memories, and a head that writes numbers."""
# needs: x_transformers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from x_transformers import ContinuousAutoregressiveWrapper, ContinuousTransformerWrapper, Decoder, Encoder, TransformerWrapper, XLAutoregressiveWrapper, XTransformer

torch.manual_seed(0)
model = XTransformer(dim=16, enc_num_tokens=20, enc_depth=1, enc_heads=2, enc_max_seq_len=8, dec_num_tokens=20, dec_depth=1, dec_heads=2, dec_max_seq_len=10, enc_attn_dim_head=8, dec_attn_dim_head=8, tie_token_emb=True, dec_attn_qk_norm=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
source = torch.randint(2, 20, (3, 8))
target = torch.cat([torch.ones(3, 1, dtype=torch.long), source], 1)
mask = torch.ones(3, 8, dtype=torch.bool)
mask[0, 6:] = False
for step in range(2):
    loss = model(source, target, mask=mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("copy", step, loss.item().hex())
print(model.generate(source[:1], target[:1, :1], 4, mask=mask[:1], temperature=0.0).tolist())
layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rel_pos_bias=True, use_rmsnorm=True, ff_swish=True, ff_glu=True)
model = XLAutoregressiveWrapper(TransformerWrapper(num_tokens=20, max_seq_len=6, max_mem_len=6, shift_mem_down=1, attn_layers=layers))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
ids = torch.randint(0, 20, (2, 13))
for step in range(2):
    loss = model(ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("memory", step, loss.item().hex())
model = ContinuousAutoregressiveWrapper(ContinuousTransformerWrapper(dim_in=2, dim_out=2, max_seq_len=10, attn_layers=Decoder(dim=16, depth=1, heads=2, attn_dim_head=8, alibi_pos_bias=True, use_scalenorm=True)))
path = torch.randn(2, 9, 2).cumsum(1)
loss = model(path)
loss.backward()
print("numbers", loss.item().hex(), sum(p.grad.norm() for p in model.parameters() if p.grad is not None).item().hex())
sets = ContinuousTransformerWrapper(dim_in=2, dim_out=1, max_seq_len=0, use_abs_pos_emb=False, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8, attn_num_mem_kv=2, macaron=True))
sets(path).mean().backward()
print("sets", sets.project_in.weight.grad.norm().item().hex())
