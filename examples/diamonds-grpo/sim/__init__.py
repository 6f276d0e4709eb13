"""The simulated trainer: verl's overrides in, verl's, vLLM's and PyTorch's messages out.

overrides   what Hydra makes of the command line       keys.txt   every key, per verl version
setup       the numbers that the rest needs            rules      what verl refuses, and when
memory      bytes per GPU and phase                    messages   the texts, in their real formats
story       one run, from the first line to the exit code
"""
