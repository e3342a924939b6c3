"""transformers: a small Mistral writes between its steps: greedy, beams, sampling, a processor of its own."""
# needs: transformers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import transformers
from transformers import LogitsProcessor, LogitsProcessorList, MistralConfig, MistralForCausalLM, StoppingCriteria, StoppingCriteriaList

transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
model = MistralForCausalLM(MistralConfig(
    vocab_size=24, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, sliding_window=6, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    attn_implementation="eager",
))


class NoRepeat(LogitsProcessor):
    def __call__(self, ids, scores):
        return scores.scatter(1, ids[:, -1:], -1e4)


class EvenEnd(StoppingCriteria):
    def __call__(self, ids, scores, **_):
        return ids[:, -1] == 4


optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
ids = (torch.arange(12) % 5 + 3).repeat(4, 1)
for step in range(3):
    model.train()
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
    model.eval()
    ways = {
        "greedy": {"do_sample": False},
        "beams": {"num_beams": 3, "num_return_sequences": 2},
        "sampled": {"do_sample": True, "top_k": 8, "temperature": 0.7},
        "steered": {"do_sample": False, "logits_processor": LogitsProcessorList([NoRepeat()]), "stopping_criteria": StoppingCriteriaList([EvenEnd()])},
    }
    for name, way in ways.items():
        print(name, model.generate(ids[:1, :4], max_new_tokens=5, attention_mask=torch.ones(1, 4, dtype=torch.long), **way).tolist())
