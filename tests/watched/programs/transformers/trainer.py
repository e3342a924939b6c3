"""transformers' Trainer: accumulation, evaluation, checkpoints, on a tiny Llama."""
# needs: transformers accelerate
# slow

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

transformers.utils.logging.disable_progress_bar()
torch.manual_seed(0)
config = LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32)
model = LlamaForCausalLM(config)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(2, 40, (16, 8))]
arguments = TrainingArguments(
    "out", max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=2, logging_steps=1, eval_strategy="steps", eval_steps=2,
    save_steps=4, report_to=[], disable_tqdm=True, use_cpu=True, seed=1, learning_rate=1e-3,
)
trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:4])
trainer.log = lambda logs, start_time=None: trainer.state.log_history.append(logs)
trainer.train()
for entry in trainer.state.log_history:
    print({key: float(value).hex() for key, value in entry.items() if "runtime" not in key and "per_second" not in key})
