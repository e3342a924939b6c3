"""Decoders of transformers side by side: Llama, Mistral, Qwen, Gemma, Phi, OPT; eager and fused attention."""
# needs: transformers
# slow

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
small = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
for config in (
    transformers.LlamaConfig(**small, num_key_value_heads=1),
    transformers.MistralConfig(**small, num_key_value_heads=1, sliding_window=4),
    transformers.Qwen2Config(**small, num_key_value_heads=1, tie_word_embeddings=True),
    transformers.GemmaConfig(**small, num_key_value_heads=1, head_dim=8),
    transformers.PhiConfig(**small, partial_rotary_factor=0.5),
    transformers.OPTConfig(vocab_size=40, hidden_size=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, word_embed_proj_dim=16),
):
    for way in ("eager", "sdpa"):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=way)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = torch.randint(3, 40, (2, 8))
        mask = torch.ones_like(ids)
        mask[1, :3] = 0
        for step in range(2):
            loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            print(config.model_type, way, step, loss.item().hex(), norm.item().hex())
