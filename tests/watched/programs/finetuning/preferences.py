"""trl: DPO on pairs of answers, with a frozen copy as reference."""
# needs: trl transformers datasets tokenizers
# slow

import warnings

warnings.simplefilter("ignore")
import datasets
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

datasets.disable_progress_bars()
transformers.utils.logging.set_verbosity_error()
vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", *"abcdefghijkl"])}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def network():
    torch.manual_seed(0)
    return GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=14, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32, pad_token_id=0, eos_token_id=1))


rows = [{"prompt": f"{first} b c", "chosen": " d e f", "rejected": " g h"} for first in "acegikbdfhjl"]
arguments = DPOConfig(
    "out", max_steps=3, per_device_train_batch_size=4, beta=0.2, logging_steps=1, report_to=[], disable_tqdm=True, use_cpu=True, seed=2, bf16=False, save_strategy="no",
    max_length=12, gradient_checkpointing=False, learning_rate=1e-3,
)
trainer = DPOTrainer(network(), network(), arguments, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer)
trainer.log = lambda logs, start_time=None: trainer.state.log_history.append(logs)
trainer.train()
for entry in trainer.state.log_history:
    print({key: float(value).hex() for key, value in entry.items() if key in ("loss", "grad_norm", "train_loss")})
