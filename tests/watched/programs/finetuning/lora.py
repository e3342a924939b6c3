"""LoRA by peft on a tiny GPT-2, merged at the end."""
# needs: peft transformers
# slow

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
base = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=24, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1))
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
ids = torch.randint(2, 50, (3, 12))
for step in range(4):
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), *sorted(p.grad.norm().item().hex() for p in model.parameters() if p.requires_grad))
print(model.merge_and_unload()(input_ids=ids).logits.sum().item().hex())
