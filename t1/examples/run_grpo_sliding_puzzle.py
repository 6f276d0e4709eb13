import argparse
import os

from nemo_rl.algorithms.grpo import MasterConfig, grpo_train, setup
from nemo_rl.utils.config import load_config, parse_hydra_overrides


def parse_args():
    """Parse command line arguments."""
    parser = argparse.ArgumentParser(description="Run GRPO training with configuration")
    parser.add_argument("--config", type=str, default=None, help="Path to YAML config file")
    args, overrides = parser.parse_known_args()
    return args, overrides


def main():
    args, overrides = parse_args()
    if not args.config:
        args.config = os.path.join(os.path.dirname(__file__), "configs", "grpo_sliding_puzzle.yaml")
    config = load_config(args.config)
    if overrides:
        config = parse_hydra_overrides(config, overrides)


if __name__ == "__main__":
    main()
