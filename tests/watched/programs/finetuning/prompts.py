"""peft: prompts and prefixes are learned before a GPT-2 that stays as it is."""
# needs: peft transformers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import transformers
from peft import PrefixTuningConfig, PromptEncoderConfig, PromptTuningConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

transformers.utils.logging.set_verbosity_error()
shared = {"task_type": "CAUSAL_LM", "num_virtual_tokens": 3}
kinds = {
    "prompt": PromptTuningConfig(**shared),
    "encoder": PromptEncoderConfig(**shared, encoder_hidden_size=8),
    "prefix": PrefixTuningConfig(**shared, prefix_projection=True, encoder_hidden_size=8),
}
ids = torch.randint(0, 40, (3, 7), generator=torch.Generator().manual_seed(1))
mask = torch.ones_like(ids)
mask[2, 5:] = 0
for name, config in kinds.items():
    torch.manual_seed(0)
    model = get_peft_model(GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1)), config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(2):
        loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        norms = [p.grad.norm().item().hex() for p in model.parameters() if p.grad is not None]
        print(name, step, loss.item().hex(), len(norms), norms[0])
    model.eval()
    with torch.no_grad():
        print(name, model(input_ids=ids, attention_mask=mask).logits.mean().item().hex(), model.get_nb_trainable_parameters())
