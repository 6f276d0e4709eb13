"""A causal language model with the Trainer of transformers."""

from transformers import DataCollatorForLanguageModeling, HfArgumentParser, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

import tiny

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
set_seed(args.seed)
tokenizer = tiny.tokenizer()
tokens = tiny.dataset().map(lambda row: tokenizer(row["text"]), remove_columns="text")
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
trainer = Trainer(tiny.model(), args, collator, tokens)
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))
