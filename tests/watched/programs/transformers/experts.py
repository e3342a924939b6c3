"""transformers: a mixture of experts of Mixtral's kind, with the loss that balances them and checkpointed layers."""
# needs: transformers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import transformers
from transformers import MixtralConfig, MixtralForCausalLM, get_cosine_schedule_with_warmup

transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
config = MixtralConfig(
    vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
    sliding_window=4, max_position_embeddings=32, output_router_logits=True, router_aux_loss_coef=0.02, router_jitter_noise=0.0,
)
model = MixtralForCausalLM(config)
model.gradient_checkpointing_enable({"use_reentrant": False})
model.train()
decayed = [p for p in model.parameters() if p.ndim > 1]
plain = [p for p in model.parameters() if p.ndim == 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=2e-3)
schedule = get_cosine_schedule_with_warmup(optimizer, 1, 4)
ids = torch.randint(0, 32, (4, 2, 10))
for step in range(2):
    for micro in ids.view(2, 2, 2, 10)[step]:
        out = model(input_ids=micro, labels=micro)
        (out.loss / 2).backward()
        print(step, out.loss.item().hex(), out.aux_loss.item().hex())
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print("norm", norm.item().hex(), schedule.get_last_lr()[0].hex())
