"""Actions as values: what each changes, and when it cannot help any further."""

from __future__ import annotations

import pytest

from mlflow_resilience.core import action as actions
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.fault import Fault, Phase, Position

FAULT = Fault(exception="E", phase="step", position=Position(global_step=7), batch_size=4)


def test_plain_actions_change_nothing() -> None:
    """An action that is done elsewhere leaves the settings alone."""
    settings = Settings(accumulation=2)
    assert actions.RetryStep().change(settings, FAULT) is settings


def test_split_until_a_piece_is_a_record() -> None:
    """Pieces double as long as a batch has so many records."""
    split = actions.SplitBatch()
    twice = split.change(Settings(), FAULT)
    assert twice is not None and twice.accumulation == 2
    four = split.change(twice, FAULT)
    assert four is not None and four.accumulation == 4
    assert split.change(four, FAULT) is None


def test_split_without_a_known_batch_ends_too() -> None:
    """A batch of unknown size is not split for ever."""
    assert actions.SplitBatch().change(Settings(accumulation=64), Fault(exception="E")) is None


def test_split_in_validation_leaves_training_alone() -> None:
    """Only the validation batch is split, which changes no weights."""
    fault = Fault(exception="E", phase="validation")
    split = actions.SplitBatch()
    assert split.change(Settings(), fault) == Settings(validation_pieces=2)
    assert not split.alters_result(fault, exact_split=False)
    assert split.alters_result(FAULT, exact_split=False)
    assert not split.alters_result(FAULT, exact_split=True)


@pytest.mark.parametrize("phase", ["start", "restore"])
def test_nothing_to_split_before_the_first_step(phase: Phase) -> None:
    """Where no batch was at hand, smaller batches cannot help."""
    assert actions.SplitBatch().change(Settings(), Fault(exception="E", phase=phase)) is None


def test_skip_names_the_failed_step() -> None:
    """The batch of the step after the last one done is left out, once."""
    skip = actions.SkipBatch()
    assert skip.change(Settings(skipped_batches=(8, 9)), FAULT) == Settings(skipped_batches=(8, 9))
    assert skip.change(Settings(skipped_batches=(9,)), FAULT) == Settings(skipped_batches=(8, 9))
    assert skip.change(Settings(), Fault(exception="E")) is None


def test_other_changes() -> None:
    """Learning rate, input and device memory."""
    assert actions.ScaleLearningRate(0.1).change(Settings(), FAULT) == Settings(learning_rate_scale=0.1)
    assert actions.ReduceInput().change(Settings(), FAULT) == Settings(input_reduction=2)
    assert actions.ReduceInput().change(Settings(input_reduction=16), FAULT) is None
    assert actions.GrowMemory().change(Settings(), FAULT) == Settings(memory_growth=True)
    assert actions.GrowMemory().change(Settings(memory_growth=True), FAULT) is None


def test_phrases() -> None:
    """Each action says what it does."""
    settings = Settings(accumulation=4, learning_rate_scale=0.25, input_reduction=8)
    phrases = {
        actions.SplitBatch(): "each batch in 4 micro-batches",
        actions.ScaleLearningRate(): "learning rate times 0.25",
        actions.ReduceInput(): "input buffers and parallelism divided by 8",
        actions.NewProcess(): "new process from the last checkpoint",
        actions.RollBack(): "back to the last checkpoint",
        actions.Quarantine(): "quarantine the bad records",
    }
    assert {action: action.phrase(settings) for action in phrases} == phrases
    assert actions.SplitBatch().phrase(Settings(validation_pieces=2)) == "validation batches in 2 pieces"


def test_every_action_has_a_phrase() -> None:
    """None is wordless, and none says more than a line."""
    for kind in actions.Action.__subclasses__():
        phrase = kind().phrase(Settings())
        assert phrase
        assert "\n" not in phrase
