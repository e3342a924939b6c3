"""trl's SFTTrainer on token ids that are there already, with a tiny Qwen2."""
# needs: trl transformers datasets
# slow

import warnings

warnings.simplefilter("ignore")
import datasets
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import SFTConfig, SFTTrainer

datasets.disable_progress_bars()
torch.manual_seed(0)
words = {word: number for number, word in enumerate(["<pad>", "<eos>", *"abcdefghijklmnopqrst"])}
tokens = Tokenizer(WordLevel(words, unk_token="<pad>"))
tokens.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>")
config = Qwen2Config(vocab_size=22, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=1)
rows = [{"input_ids": [2 + (start + k) % 20 for k in range(8)]} for start in range(16)]
arguments = SFTConfig(
    "out", max_steps=3, per_device_train_batch_size=4, logging_steps=1, report_to=[], disable_tqdm=True, use_cpu=True, seed=1,
    save_strategy="no", max_length=16, bf16=False, gradient_checkpointing=False,
)
trainer = SFTTrainer(Qwen2ForCausalLM(config), arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
trainer.log = lambda logs, start_time=None: trainer.state.log_history.append(logs)
trainer.train()
for entry in trainer.state.log_history:
    print({key: float(value).hex() for key, value in entry.items() if key in ("loss", "grad_norm", "train_loss")})
