"""trl: a reward model learns which of two answers people prefer."""
# needs: trl transformers datasets tokenizers
# slow

import warnings

warnings.simplefilter("ignore")
import datasets
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification
from trl import RewardConfig, RewardTrainer

datasets.disable_progress_bars()
transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(["<pad>", "<eos>", *"abcdefghijkl"])}, unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
model = Qwen2ForSequenceClassification(Qwen2Config(vocab_size=14, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, num_labels=1, pad_token_id=0, eos_token_id=1))
rows = [{"chosen": f"{first} b c d", "rejected": f"{first} l k"} for first in "acegikbdfhjl"]
arguments = RewardConfig(
    "out", num_train_epochs=1, per_device_train_batch_size=4, logging_steps=1, report_to=[], disable_tqdm=True, use_cpu=True, seed=2, bf16=False, save_strategy="no", max_length=12,
    gradient_checkpointing=False, center_rewards_coefficient=0.01, learning_rate=1e-3,
)
trainer = RewardTrainer(model, arguments, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer)
trainer.log = lambda logs, start_time=None: trainer.state.log_history.append(logs)
trainer.train()
for entry in trainer.state.log_history:
    print({key: float(value).hex() for key, value in entry.items() if key in ("loss", "grad_norm", "margin", "accuracy", "train_loss")})
