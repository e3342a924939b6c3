"""transformers' Trainer: gradient checkpointing, bfloat16, label smoothing, a NEFTune hook, an own loss."""
# needs: transformers accelerate
# slow

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
config = GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(1, 40, (12, 8))]


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        out = model(**inputs)
        weights = torch.linspace(0.5, 1.0, 7)
        each = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1).float(), inputs["labels"][:, 1:].flatten(), reduction="none")
        loss = (each.view(-1, 7) * weights).mean()
        return (loss, out) if return_outputs else loss


class Norms(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        print("norm", state.global_step, model.transformer.wte.weight.grad.norm().item().hex())


arguments = TrainingArguments(
    "out", max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2, gradient_checkpointing=True, bf16=True, neftune_noise_alpha=5,
    gradient_checkpointing_kwargs={"use_reentrant": False}, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, seed=1,
    lr_scheduler_type="cosine", optim="adafactor",
)
trainer = Weighted(model, arguments, train_dataset=rows, callbacks=[Norms()])
trainer.log = lambda logs, start_time=None: trainer.state.log_history.append(logs)
print(trainer.train().training_loss.hex())
for entry in trainer.state.log_history:
    print({key: float(value).hex() for key, value in entry.items() if key in ("loss", "grad_norm", "learning_rate")})
