"""GRPO with TRL; generation by transformers."""

from transformers import HfArgumentParser, set_seed
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

import tiny


def even_words(completions, **kwargs):
    return [sum(int(word[1:]) % 2 == 0 for word in text.split() if word[0] == "w") for text in completions]


(args,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses()
set_seed(args.seed)
trainer = GRPOTrainer(
    tiny.model(), even_words, args, train_dataset=tiny.dataset("prompt"), processing_class=tiny.tokenizer()
)
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))
