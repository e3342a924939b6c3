"""A tiny GPT-2 with gradient checkpointing, then text generated from it."""
# needs: transformers
# slow

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=24, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1))
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ids = torch.randint(2, 50, (3, 12))
for step in range(3):
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.transformer.wte.weight.grad.norm().item().hex())
model.eval()
out = model.generate(ids[:1, :4], attention_mask=torch.ones(1, 4, dtype=torch.long), max_new_tokens=6, do_sample=False, pad_token_id=1)
print(out.tolist())
