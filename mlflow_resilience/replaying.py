"""One failed step once more, alone: ``python -m mlflow_resilience.replaying FOLDER``, parameters as JSON on standard
input, the answer as one line of JSON on standard output. A process of its own: the step may well end it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow_resilience import equipping, recipe
from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import describe
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.core.text import clean, shorten
from mlflow_resilience.errors import CheckpointError, UsageError
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.recoveries import BUILT_IN

USAGE = 2


def main() -> int:
    """The answer to standard output; what is wrong with the input in one line to standard error."""
    folder, parameters = Path(sys.argv[1]), Parameters.from_dict(json.load(sys.stdin))
    try:
        answer = replay(folder, parameters)
    except (UsageError, CheckpointError) as error:
        print(f"mlflow-resilience: {error}", file=sys.stderr)
        return USAGE
    print(json.dumps(answer))
    return 0


def replay(folder: Path, parameters: Parameters) -> dict[str, Any]:
    """Repeat the step that ``folder`` keeps. Raises UsageError or CheckpointError where recipe and folder do not fit
    together."""
    from mlflow_resilience.training import replay_store, state, tensor_file
    from mlflow_resilience.training.packing import unpack

    meta = json.loads((folder / replay_store.META).read_text())
    arrays = tensor_file.read((folder / replay_store.BATCH).read_bytes())
    batch = _tensors(unpack(meta["batch"], arrays))
    model, from_step = _model(folder, meta, parameters, batch)
    before = state.snapshot(model)
    looked = _look(model, batch, lambda: state.restore(model, before))
    return {
        **{key: meta[key] for key in ("fault", "step", "failure_class", "exception")},
        "from_step": from_step,
        **looked,
        **_step(model, batch, meta),
    }


def _model(folder: Path, meta: dict[str, Any], parameters: Parameters, batch: Any) -> tuple[Any, int | None]:
    """The recipe's model with the state of the checkpoint, and that one's step; None as the recipe begins."""
    import keras

    from mlflow_resilience.training import build, checkpoint, randomness, replay_store, state

    equipping.set_device(parameters)
    loaded = recipe.load(parameters.recipe)
    keras.utils.set_random_seed(parameters.seed)
    stored = folder / replay_store.CHECKPOINT
    data: Any = None
    if not stored.is_dir() or parameters.is_treated:
        data, _ = loaded.load_data(parameters.for_recipe())  # which may draw random numbers, and comes first
    model = loaded.build_model(parameters.for_recipe())
    loaded.check_model(model)
    model = equipping.again(model, data, parameters)
    build.build(model, _specs(batch))
    if not stored.is_dir():
        return model, None
    kept = checkpoint.read(stored)
    state.restore(model, kept.tensors, state.LASTING)
    randomness.restore(kept.meta["random"])
    return model, int(kept.meta["position"]["global_step"])


def _look(model: Any, batch: Any, put_back: Any) -> dict[str, Any]:
    """In words, of inputs, of outputs layer by layer, and of gradients: whether they are finite."""
    import keras

    from mlflow_resilience.training import finite

    inputs, *_ = keras.utils.unpack_x_y_sample_weight(batch)
    parts: dict[str, Callable[[], str | None]] = {
        "outputs": lambda: finite.first_output(model, inputs),
        "gradients": lambda: finite.first_gradient(model, batch),
    }
    looked: dict[str, Any] = {"inputs": "finite" if finite.all_finite(inputs) else "not finite"}
    for name, first in parts.items():
        try:
            found = first()
            looked[name] = f"not finite, first in {found}" if found else "finite"
        except Exception as error:
            looked[name] = " ".join(["not all were reached:", _told(error), *getattr(error, "__notes__", ())])
    put_back()
    return looked


def _step(model: Any, batch: Any, meta: dict[str, Any]) -> dict[str, Any]:
    """The step as training does it, and whether it fails as it did then."""
    import math

    import tensorflow as tf

    from mlflow_resilience.training import state

    finite_before = state.not_finite(model)
    model.reset_metrics()
    step = model.train_step if model.run_eagerly else tf.function(model.train_step, jit_compile=model.jit_compile)
    try:
        loss = float(step(batch)["loss"])
    except Exception as error:
        found = classify(describe(error, phase="step"), BUILT_IN).failure_class
        return {"recurs": found == meta["failure_class"], "ended": _told(error)}
    broken = sorted(state.not_finite(model) - finite_before)
    diverged = not math.isfinite(loss) or bool(broken)
    ended = f"loss {loss:g}" + (f", and {broken[0]} is not finite after it" if broken else "")
    return {"recurs": diverged and meta["failure_class"] == "divergence", "ended": ended}


def _told(error: Exception) -> str:
    message = clean(str(error)) or str(error)
    return " ".join(shorten(redact(f"{type(error).__name__}: {message}"), 300).split())


def _tensors(batch: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(lambda value: None if value is None else tf.constant(value), batch)


def _specs(batch: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(lambda value: tf.TensorSpec((None, *value.shape[1:]), value.dtype), batch)


if __name__ == "__main__":
    sys.exit(main())
