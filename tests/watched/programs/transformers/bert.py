"""A tiny BERT that classifies, with padding and a warm-up schedule."""
# needs: transformers
# slow

import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(0)
config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=3)
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_linear_schedule_with_warmup(optimizer, 2, 6)
ids, labels = torch.randint(1, 60, (4, 10)), torch.randint(0, 3, (4,))
mask = torch.ones_like(ids)
mask[1, 6:] = 0
for step in range(4):
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(step, loss.item().hex(), norm.item().hex())
