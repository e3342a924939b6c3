"""A tiny T5: encoder and decoder, shared embeddings, Adafactor with its own learning rate."""
# needs: transformers
# slow

import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

torch.manual_seed(0)
config = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config)
optimizer = Adafactor(model.parameters(), lr=None, relative_step=True, scale_parameter=True, warmup_init=True)
ids, labels = torch.randint(2, 40, (3, 8)), torch.randint(2, 40, (3, 5))
for step in range(3):
    loss = model(input_ids=ids, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.shared.weight.grad.norm().item().hex())
