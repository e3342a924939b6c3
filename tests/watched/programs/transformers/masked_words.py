"""transformers: words are masked by a collator, a DistilBERT guesses them, a callback stops early."""
# needs: transformers accelerate tokenizers
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import DataCollatorForLanguageModeling, DistilBertConfig, DistilBertForMaskedLM, EarlyStoppingCallback, PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
lines = [f"the {size} {animal} {verb} the {thing}" for size in ("big", "small") for animal in ("cat", "dog") for verb in ("saw", "took") for thing in ("ball", "fish")]
words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=60, special_tokens=["[PAD]", "[UNK]", "[MASK]", "[CLS]", "[SEP]"], show_progress=False))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", mask_token="[MASK]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
rows = [tokenizer(line) for line in lines]
torch.set_num_threads(1)  # with more, its sums differ from run to run
torch.manual_seed(0)
model = DistilBertForMaskedLM(DistilBertConfig(vocab_size=len(tokenizer), dim=16, hidden_dim=32, n_layers=2, n_heads=2, max_position_embeddings=16))


class Watch(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        print("before step", state.global_step, model.vocab_transform.weight.grad.norm().item().hex())

    def on_evaluate(self, args, state, control, metrics=None, **_):
        print("evaluated", metrics["eval_loss"].hex())


arguments = TrainingArguments(
    "out", num_train_epochs=2, per_device_train_batch_size=8, eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="eval_loss",
    report_to=[], disable_tqdm=True, use_cpu=True, seed=3, lr_scheduler_type="cosine", warmup_steps=1, logging_strategy="no", label_smoothing_factor=0.1,
)
collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3, seed=7)
trainer = Trainer(model, arguments, data_collator=collator, train_dataset=rows, eval_dataset=rows[::3], callbacks=[Watch(), EarlyStoppingCallback(1)])
trainer.log = lambda logs, start_time=None: None
print(trainer.train().training_loss.hex())
