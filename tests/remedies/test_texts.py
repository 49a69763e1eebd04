"""Remedies as users write them: read without Keras, and refused in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.remedies.augmenting import Augment
from mlflow_resilience.remedies.clipping import Clip
from mlflow_resilience.remedies.rates import Length, Rate, Schedule
from mlflow_resilience.remedies.regularising import Regularise
from mlflow_resilience.remedies.stopping import EarlyStopping, Plateau
from mlflow_resilience.remedies.wanted import READERS, Remedies

GOOD = {
    "schedule": ("warmup:100,cosine", Schedule(warmup=Length(100), kind="cosine")),
    "plateau": ("val_loss:3,factor:0.2,least:1e-6", Plateau(monitor="val_loss", patience=3, factor=0.2, least=1e-6)),
    "early_stopping": (
        "val_accuracy:5,restore,min_delta:0.01,mode:max",
        EarlyStopping(monitor="val_accuracy", patience=5, restore=True, min_delta=0.01, mode="max"),
    ),
    "clip": ("global_norm:2.5", Clip("global_norm", 2.5)),
    "regularise": (
        "l1:1e-5, l2:1e-4,dropout:0.3,batchnorm",
        Regularise(l1=1e-5, l2=1e-4, dropout=0.3, batchnorm=True),
    ),
    "augment": ("flip,rotate:0.1,noise:0.05", Augment((("flip", "horizontal"), ("rotate", 0.1), ("noise", 0.05)))),
}
BAD = {
    "schedule": [
        "linear",
        "warmup",
        "warmup:0",
        "cosine,exponential:0.9:10",
        "exponential:0.9",
        "floor:0.1",
        "cosine:-1",
    ],
    "plateau": ["val_loss", "val_loss:0", ":3", "val_loss:3,factor:2", "val_loss:3,restore"],
    "early_stopping": ["5", "val_loss:x", "val_loss:5,mode:up", "val_loss:5,restore:yes", "val_loss:5,"],
    "clip": ["norm", "norm:0", "norm:nan", "norm:1,value:1", "gradient:1", ""],
    "regularise": ["l3:1", "dropout:1", "dropout:0.3,dropout:0.2", "batchnorm:1", "l2:inf"],
    "augment": ["flip:sideways", "rotate", "shear:0.1", "zoom:1.5"],
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_asked_for_is_read(name: str) -> None:
    """Each word with its values, and `none` is nothing."""
    text, expected = GOOD[name]
    assert READERS[name](text) == expected
    assert READERS[name]("none") is None


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_what_cannot_be_read_is_one_line_that_names_the_parameter(name: str, text: str) -> None:
    """Before anything is trained."""
    with pytest.raises(UsageError, match=f"^{name}={text}: .+") as told:
        Parameters.from_text({name: text})
    assert "\n" not in str(told.value)


def test_two_that_set_the_rate_exclude_each_other() -> None:
    """Keras would refuse the second one in the middle of training."""
    with pytest.raises(UsageError, match="schedule and plateau"):
        Parameters.from_text({"schedule": "cosine", "plateau": "val_loss:3"})


def test_by_default_nothing_is_asked_for() -> None:
    """The parameters' defaults are no remedy, no device setting and no diagnostics."""
    parameters = Parameters.from_text({name: "none" for name in (*READERS, "precision", "device", "diagnostics")})
    assert parameters == Parameters()
    assert parameters.remedies() == Remedies()
    assert not parameters.is_treated
    assert parameters.on_device().identity() == {}


def test_lengths_become_steps_of_this_training() -> None:
    """A cosine without a length reaches to the end, and what cannot be told is asked for."""
    asked = Schedule.parse("warmup:2epochs,cosine,floor:0.1")
    assert asked is not None
    assert asked.in_steps(10, 5) == Rate(warmup=20, kind="cosine", steps=30, floor=0.1)
    decay = Schedule.parse("exponential:0.5:1epoch")
    assert decay is not None
    assert decay.in_steps(10, None) == Rate(kind="exponential", steps=10, factor=0.5)
    for schedule, steps, epochs, told in (
        (asked, None, 5, "does not say how many steps"),
        (Schedule(kind="cosine"), None, 5, "cosine:5000"),
        (asked, 10, 2, "leaves no step for the decay"),
    ):
        with pytest.raises(UsageError, match=told):
            schedule.in_steps(steps, epochs)


def test_a_word_takes_as_many_values_as_its_form_says() -> None:
    """Of a table of words."""
    words = {"pair": Word("pair:A[:B]", (grammar.whole, grammar.positive), 1)}
    assert grammar.parse("pair:3", words) == {"pair": (3,)}
    assert grammar.parse(" pair : 3 : 0.5 ", words) == {"pair": (3, 0.5)}
    for wrong in ("pair", "pair:1:2:3", "pair:x", "pair:0"):
        with pytest.raises(UsageError, match=r"pair:A\[:B\]"):
            grammar.parse(wrong, words)


def test_reading_needs_neither_keras_nor_tensorflow() -> None:
    """The command line answers at once."""
    code = (
        "import sys; from mlflow_resilience.parameters import Parameters; import mlflow_resilience.remedies, "
        "mlflow_resilience.device; Parameters.from_text({'schedule': 'cosine', 'regularise': 'l2:1', "
        "'augment': 'flip', 'device': 'xla', 'diagnostics': '50'}); "
        "print(sorted({'keras', 'tensorflow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
