"""Supervised fine-tuning with TRL."""

from transformers import HfArgumentParser, set_seed
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

import tiny

(args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
set_seed(args.seed)
trainer = SFTTrainer(tiny.model(), args, train_dataset=tiny.dataset(), processing_class=tiny.tokenizer())
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))
