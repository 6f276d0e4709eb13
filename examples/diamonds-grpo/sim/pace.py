"""How long a simulated training step takes: rough figures, so that a faster configuration shows in the log.

Nothing here is a measurement of verl. The shares are those that the preset's `tune:` names with their sources
(offload between the phases, a second forward in the update), and each micro batch costs a fixed time for its kernels
and gathers, which is why larger ones are faster.
"""

PARAM_OFFLOAD = 0.06
OPTIMIZER_OFFLOAD = 0.09
UPDATE_SHARE = 0.4
MICRO_BATCH_S = 0.1
ROLLOUT_SHARE = 0.4
WARM_UP_S = 12.0


def step_seconds(setup, first):
    """Seconds that the step's log line tells; the first step compiles and warms up."""
    seconds = 30 + 0.02 * setup.samples
    rollout = ROLLOUT_SHARE * seconds * (1 + 0.5 * max(0.0, 0.8 - setup.utilization))
    update = UPDATE_SHARE * seconds * (1 if setup.checkpointing else 0.75)
    rest = (1 - ROLLOUT_SHARE - UPDATE_SHARE) * seconds
    offload = 1 + PARAM_OFFLOAD * setup.param_offload + OPTIMIZER_OFFLOAD * setup.optimizer_offload
    return (rollout + update + rest) * offload + _passes(setup) * MICRO_BATCH_S + (WARM_UP_S if first else 0.0)


def _passes(setup):
    """Forward passes of one GPU in a step: the update, and the log-probabilities of policy and reference."""
    each = setup.samples / setup.data_parallel
    if setup.dynamic:
        longest = setup.prompt + setup.response
        budgets = [setup.actor_budget, setup.rollout_budget, setup.ref_budget]
        sizes = [max(1, budget * setup.sequence_parallel // longest) for budget in budgets]
    else:
        sizes = [setup.micro, setup.rollout_micro, setup.ref_micro]
    return sum(each / size for size in sizes if size)
