"""What a change of settings does to the result, in words: what is said is what was done."""

from __future__ import annotations

import keras

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.training import microbatch


def in_words(model: keras.Model, before: Settings, after: Settings, step: int) -> list[str]:
    """A line for each way in which training with ``after`` from ``step`` on differs from training with ``before``."""
    lines = []
    if after.accumulation != before.accumulation:
        reason = microbatch.changes_result(model)
        effect = f"the result changes, since {reason}" if reason else "equal but for rounding"
        how = f"in {after.accumulation} pieces" if after.accumulation > 1 else "whole again"
        lines.append(f"batches trained {how} from step {step + 1}: {effect}")
    if after.validation_pieces != before.validation_pieces:
        how = f"in {after.validation_pieces} pieces" if after.validation_pieces > 1 else "whole again"
        lines.append(f"validation batches {how} from step {step + 1}: their figures are equal but for rounding")
    if after.learning_rate_scale != before.learning_rate_scale:
        lines.append(f"learning rate times {after.learning_rate_scale:g} from step {step + 1}")
    if after.gradient_bound != before.gradient_bound:
        how = "no more clipped" if after.gradient_bound is None else f"clipped to a norm of {after.gradient_bound:g}"
        lines.append(f"gradients {how} from step {step + 1}")
    left_out = sorted(set(after.skipped_batches) - set(before.skipped_batches))
    if left_out:
        lines.append(f"batch of step {', '.join(map(str, left_out))} left out")
    return lines
