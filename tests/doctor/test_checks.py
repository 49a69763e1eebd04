"""Each finding on records that show it, and its silence on records that do not."""

from __future__ import annotations

import http.server
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlflow_resilience.doctor import arithmetic, data_checks, model_checks, room, server
from mlflow_resilience.doctor.facts import Column, Expected, Head, Split
from mlflow_resilience.doctor.finding import Finding, worst_first
from mlflow_resilience.doctor.room import Need

RANDOM = np.random.default_rng(0)


def split(x: Any = None, y: Any = None, *, name: str = "training", **more: Any) -> Split:
    """Records; by default twelve of four standardised features, with three classes in turn."""
    x = RANDOM.normal(size=(12, 4)) if x is None else np.asarray(x)
    y = np.arange(len(x)) % 3 if y is None else np.asarray(y)
    known = {"steps": 3.0, "records": float(len(x)), "batch_size": 4, "whole": True, "weights": (), **more}
    return Split(name=name, inputs=(Column(name="x", values=x),), targets=(Column(name="y", values=y),), **known)


def model(
    loss: str = "sparse_categorical_crossentropy",
    units: int = 3,
    activation: str = "softmax",
    from_logits: bool | None = False,
    layers: tuple[str, ...] = ("Dense",),
) -> Expected:
    head = Head(name="out", shape=(units,), activation=activation, loss=loss, from_logits=from_logits)
    return Expected(inputs=(("in", (4,)),), heads=(head,), layers=frozenset(layers))


def told(findings: Iterator[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.check) for finding in findings]


def test_a_healthy_training_has_no_finding_but_its_steps() -> None:
    data, expected = split(), model()
    found = [
        *data_checks.empty(data),
        *data_checks.not_finite(data),
        *data_checks.out_of_scale(data, expected),
        *data_checks.constant_features(data),
        *data_checks.uneven_classes(data, expected),
        *data_checks.shared_records(data, split(name="validation")),
        *model_checks.inputs_fit(data, expected),
        *model_checks.targets_fit(data, expected),
        *model_checks.loss_fits_activation(expected),
        *arithmetic.last_batch(data, expected),
    ]
    assert found == []
    (steps,) = arithmetic.steps(data, epochs=5)
    assert steps.text == "3 steps an epoch, 15 in 5 epochs: 12 records in batches of 4"


def test_no_record_at_all() -> None:
    assert told(data_checks.empty(split(np.zeros((0, 4))))) == [("error", "empty")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_counted_and_the_first_is_named(value: float) -> None:
    x = np.ones((6, 4))
    x[2, 1] = x[5, 0] = value
    (finding,) = data_checks.not_finite(split(x))
    assert finding.severity == "error"
    assert "2 of 6 records" in finding.text and "record 2" in finding.text


def test_inputs_out_of_scale_unless_a_layer_rescales_them_or_they_are_tokens() -> None:
    pixels = RANDOM.integers(0, 256, (12, 4)).astype("uint8")
    assert told(data_checks.out_of_scale(split(pixels), model())) == [("warning", "out_of_scale")]
    assert told(data_checks.out_of_scale(split(pixels), model(layers=("Rescaling", "Dense")))) == []
    tokens = RANDOM.integers(0, 9000, (12, 4))
    assert told(data_checks.out_of_scale(split(tokens), model(layers=("Embedding",)))) == []
    assert told(data_checks.out_of_scale(split(tokens), model())) == [("warning", "out_of_scale")]


def test_features_that_are_the_same_in_every_record() -> None:
    x = RANDOM.normal(size=(12, 4))
    x[:, 2] = 7.0
    (whole,), (sample,) = data_checks.constant_features(split(x)), data_checks.constant_features(split(x, whole=False))
    assert (whole.severity, sample.severity) == ("warning", "note")
    assert whole.text.endswith(": 2")
    assert told(data_checks.constant_features(split(x[:1]))) == []  # one record shows nothing


def test_classes_that_are_rare_or_do_not_occur() -> None:
    rare = np.array([0] * 30 + [1] * 2 + [2] * 15)
    x = RANDOM.normal(size=(47, 4))
    assert told(data_checks.uneven_classes(split(x, rare), model())) == [("warning", "uneven_classes")]
    absent = list(data_checks.uneven_classes(split(x, rare % 2), model()))
    assert [finding.check for finding in absent] == ["absent_classes", "uneven_classes"]
    assert absent[0].text.endswith(": 2")
    assert told(data_checks.uneven_classes(split(x, rare), model("mean_squared_error", 1))) == []


def test_records_that_are_in_both_parts() -> None:
    training = split()
    validation = split(np.concatenate([RANDOM.normal(size=(3, 4)), training.inputs[0].values[4:6]]), name="validation")
    (finding,) = data_checks.shared_records(training, validation)
    assert finding.text.startswith("2 of 5 validation records") and finding.text.endswith("record 3")
    assert told(data_checks.shared_records(training, None)) == []


def test_inputs_of_another_shape_or_number() -> None:
    assert told(model_checks.inputs_fit(split(np.ones((12, 5))), model())) == [("error", "shapes")]
    assert told(model_checks.inputs_fit(split(np.ones((12, 4, 1))), model())) == [("error", "shapes")]
    two = Expected(inputs=(("a", (4,)), ("b", (4,))))
    assert told(model_checks.inputs_fit(split(), two)) == [("error", "shapes")]
    anything = Expected(inputs=(("in", (None,)),))
    assert told(model_checks.inputs_fit(split(np.ones((12, 9))), anything)) == []


LABELS = {
    "beyond the classes": (model(), np.arange(12) % 4, ("error", "labels")),
    "counted from 1": (model(), np.arange(12) % 3 + 1, ("error", "labels")),
    "negative": (model(), np.arange(12) % 3 - 1, ("error", "labels")),
    "one-hot for a sparse loss": (model(), np.eye(3)[np.arange(12) % 3], ("error", "shapes")),
    "fractions": (model(), np.arange(12) % 3 / 2, ("error", "shapes")),
    "numbers for a one-hot loss": (model("categorical_crossentropy"), np.arange(12) % 3, ("error", "shapes")),
    "rows that add up to 2": (model("categorical_crossentropy"), np.ones((12, 3)) * 2 / 3, ("warning", "loss")),
    "two for a binary loss": (model("binary_crossentropy", 1, "sigmoid"), np.arange(12) % 3, ("error", "labels")),
}
FINE = {
    "class numbers": (model(), np.arange(12) % 3),
    "class numbers as floats": (model(), (np.arange(12) % 3).astype("float32")),
    "a number a row": (model(), (np.arange(12) % 3)[:, None]),
    "one-hot": (model("categorical_crossentropy"), np.eye(3)[np.arange(12) % 3]),
    "smoothed": (model("binary_crossentropy", 1, "sigmoid"), np.full(12, 0.95)),
    "amounts": (model("mean_squared_error", 1, "linear", None), RANDOM.normal(size=12) * 100),
}


@pytest.mark.parametrize("case", LABELS)
def test_targets_of_which_the_loss_cannot_be_computed(case: str) -> None:
    expected, labels, finding = LABELS[case]
    assert told(model_checks.targets_fit(split(y=labels), expected)) == [finding]


@pytest.mark.parametrize("case", FINE)
def test_targets_that_are_as_the_loss_wants_them(case: str) -> None:
    expected, labels = FINE[case]
    assert told(model_checks.targets_fit(split(y=labels), expected)) == []


def test_as_many_targets_as_outputs() -> None:
    without = Split(
        name="training",
        inputs=split().inputs,
        targets=(),
        weights=(),
        steps=3.0,
        records=12.0,
        batch_size=4,
        whole=True,
    )
    assert told(model_checks.targets_fit(without, model())) == [("error", "shapes")]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (model(activation="softmax", from_logits=True), [("warning", "loss")]),
        (model(activation="linear", from_logits=False), [("warning", "loss")]),
        (model("categorical_crossentropy", units=1, activation="softmax"), [("error", "loss")]),
        (model(activation="linear", from_logits=True), []),
        (model("mean_squared_error", 1, "linear", None), []),
    ],
)
def test_a_loss_that_is_told_wrongly_what_it_gets(expected: Expected, found: list[Any]) -> None:
    assert told(model_checks.loss_fits_activation(expected)) == found


def test_data_that_never_end_and_data_of_unknown_length() -> None:
    assert told(arithmetic.steps(split(steps=math.inf, records=math.inf), 5)) == [("error", "endless")]
    assert told(arithmetic.steps(split(steps=None, records=None), 5)) == [("note", "steps")]


def test_a_last_batch_of_one_record() -> None:
    left, normalising = split(np.ones((13, 4))), model(layers=("BatchNormalization",))
    assert told(arithmetic.last_batch(left, normalising)) == [("warning", "last_batch")]
    assert told(arithmetic.last_batch(left, model())) == []
    assert told(arithmetic.last_batch(split(np.ones((14, 4))), normalising)) == []
    (steps,) = arithmetic.steps(left, 1)
    assert steps.text.endswith("13 records in batches of 4, the last one of 1")


def test_memory_that_is_short_or_tight() -> None:
    need = Need(weights=4 * 10**9, slots=4 * 10**9, step=2 * 10**9)
    assert need.total == 10**10
    severities = {free: next(iter(room.memory(need, free, "GPU 0", 32))).severity for free in (9e9, 11e9, 20e9)}
    assert severities == {9e9: "error", 11e9: "warning", 20e9: "note"}
    (alone,) = room.memory(need, 7e9, "GPU 0", 1)
    assert "the optimiser alone do not fit" in alone.text and "smaller inputs" in alone.remedy


def test_a_disk_that_is_short_or_tight() -> None:
    assert told(room.disk(10**9, 3, 15 * 10**8, "/x")) == [("error", "disk")]
    assert told(room.disk(10**9, 3, 3 * 10**9, "/x")) == [("warning", "disk")]
    assert told(room.disk(10**9, 3, 4 * 10**9, "/x")) == []


@pytest.fixture
def health() -> Iterator[tuple[str, list[int]]]:
    """A server that answers as it is told to."""
    codes = [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(codes[-1])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://user:Geheim-12345678@127.0.0.1:{listening.server_port}", codes
        listening.shutdown()


def test_a_server_is_asked_and_its_password_not_repeated(health: tuple[str, list[int]]) -> None:
    uri, codes = health
    uri = uri.replace("user:Geheim-12345678@", "")
    assert told(server.reachable(uri)) == []
    codes.append(401)
    assert told(server.reachable(uri)) == []
    codes.append(503)
    assert told(server.reachable(uri)) == [("warning", "tracking")]
    (gone,) = server.reachable("http://user:Geheim-12345678@127.0.0.1:1")
    assert "Geheim" not in gone.text


def test_a_store_on_disk_must_be_writable(tmp_path: Path) -> None:
    assert told(server.reachable(f"sqlite:///{tmp_path}/new/mlflow.db")) == []
    (tmp_path / "file").touch()
    assert told(server.reachable(f"sqlite:///{tmp_path}/file/mlflow.db")) == [("warning", "tracking")]


def test_the_worst_come_first() -> None:
    order = ("note", "error", "warning", "error")
    findings = [Finding(severity=severity, check=str(at), text="") for at, severity in enumerate(order)]
    assert [finding.check for finding in worst_first(findings)] == ["1", "3", "2", "0"]
