"""Recurrent models of transformers: Mamba, Mamba-2 and RWKV, with padding and a causal loss."""
# needs: transformers
# slow

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
small = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2}
for config in (
    transformers.MambaConfig(**small, state_size=4, use_mambapy=False),
    transformers.Mamba2Config(**small, state_size=8, num_heads=4, head_dim=8, n_groups=1, chunk_size=4),
    transformers.FalconMambaConfig(**small, state_size=4),
):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(1, 40, (2, 8))
    for step in range(2):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(config.model_type, step, loss.item().hex(), norm.item().hex())
