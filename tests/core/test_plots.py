"""Figures: every kind of job gives one, quickly, and nothing from outside changes it or gets through it."""

from __future__ import annotations

import importlib.util
import io
import math
import re
import subprocess
import sys
import time
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from mlflow_resilience import plots
from mlflow_resilience.plots.series import columns, panels, spread, thinned, wants_log
from mlflow_resilience.spool.curve import Series
from mlflow_resilience.spool.record import JobRecord

_spec = importlib.util.spec_from_file_location("example_job", Path(__file__).with_name("example_job.py"))
assert _spec and _spec.loader
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)


def job(*entries: dict[str, Any]) -> JobRecord:
    found = JobRecord()
    for entry in ({"kind": "job", "time": 1000.0, "started": 1000.0}, *entries):
        found.add(entry)
    return found


def points(key: str, values: list[float], attempt: int = 1, first: int = 1) -> dict[str, Any]:
    listed = [[key, step, value, 1_000_000 + step] for step, value in enumerate(values, first)]
    return {"kind": "points", "time": 1001.0, "attempt": attempt, "points": listed}


def many_attempts(count: int) -> JobRecord:
    entries = []
    for number in range(1, count + 1):
        first = (number - 1) * 10
        entries += [
            example.attempt(number, first, number * 10),
            points("loss", [1 / step for step in range(first + 1, first + 16)], number, first + 1),
            *example.fault(number, number, first + 15, f"class_{number % 4}", number * 10 + 9),
            example.ended(number, first + 15, number * 10 + 9),
        ]
    return job(*entries)


HOSTILE = ("$", "$\\frac$", "</text><script>x</script>", 'id="a" url(#b)', "损失", "\x00\x1b[1m")
JOBS = {
    "rich": example.record,
    "nothing at all": JobRecord,
    "no points": lambda: job(example.attempt(1, 0, 1)),
    "one point": lambda: job(example.attempt(1, 0, 1), points("loss", [0.5])),
    "only NaN": lambda: job(points("loss", [math.nan] * 5)),
    "infinities": lambda: job(points("loss", [1.0, math.inf, -math.inf, 1.797e308, 2.0])),
    "constant": lambda: job(points("loss", [3.0] * 20)),
    "wide range": lambda: job(points("loss", [10.0**n for n in range(-8, 12)])),
    "10,000 points": lambda: job(points("loss", [math.sin(step / 50) for step in range(10_000)])),
    "50 attempts": lambda: many_attempts(50),
    "200 attempts": lambda: many_attempts(200),
    "30 metrics": lambda: job(*(points(f"metric_{n}", [1.0, 2.0]) for n in range(30))),
    "far from zero": lambda: job(example.attempt(1, 10**9, 1), points("loss", [1.0, 2.0], first=10**9)),
    "hostile names": lambda: job(*(points(name, [1.0, 2.0]) for name in HOSTILE)),
}


@pytest.mark.parametrize("name", JOBS)
def test_every_job_gives_its_figures(name: str) -> None:
    """A PNG, a wide and a narrow SVG with a text alternative, without a warning and without work that grows."""
    record = JOBS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Glyph")  # a font without Chinese; a browser has one
        began = time.process_time()
        image = Image.open(io.BytesIO(plots.training_curves(record)))
        drawn = [plots.training_curves_svg(record), plots.training_curves_svg(record, narrow=True)]
        memory = plots.memory_svg(record)
        taken = time.process_time() - began
    assert image.format == "PNG" and image.width > 1000
    assert taken < 20.0  # of the processor: a figure that draws every point of a long job takes minutes
    for each in [*drawn, *([memory] if memory else [])]:
        root = ElementTree.fromstring(each.replace("\x00", ""))
        assert root.get("role") == "img" and root.get("aria-label")
        assert len(each) < 250_000


def test_curves_by_step_are_all_that_is_drawn_of_10_000_points() -> None:
    """Thinned to what can be seen, with the spike in it."""
    values = [0.0] * 10_000
    values[7777] = 42.0
    steps, kept = thinned(*columns(job(points("loss", values)).curve["loss"]), 400)
    assert len(steps) <= 600
    assert kept.max() == 42.0 and steps[kept.argmax()] == 7778


def test_thinning_keeps_gaps() -> None:
    steps = np.arange(1000.0)
    values = np.ones(1000)
    values[500] = np.nan
    thin_steps, thin_values = thinned(steps, values, 50)
    assert thin_steps[np.isnan(thin_values)].tolist() == [500.0]


def test_training_validation_and_steps_share_a_panel() -> None:
    """Loss first, what has no validation later, the learning rate last."""
    keys = ["learning_rate", "auc", "batch/loss", "val_accuracy", "loss", "accuracy", "val_loss", "val_", "batch/"]
    shown, more = panels(keys, 4)
    assert [panel.name for panel in shown] == ["loss", "accuracy", "auc", "val_"]
    assert shown[0].keys == {"step": "batch/loss", "train": "loss", "validation": "val_loss"}
    assert more == 2


def test_text_alternative_says_what_the_picture_shows() -> None:
    text = plots.training_curves_svg(example.record())
    label = text[text.index("aria-label") : text.index('">')]
    for word in ("loss", "validation ends at 0.4006", "device_oom at step 118", "5 attempts"):
        assert word in label
    memory = plots.memory_svg(example.record()) or ""
    assert "GPU 0: highest 15,900 MB" in memory and "limit 4,000 MB" in memory


def test_a_curve_that_is_no_number_is_said() -> None:
    assert "5 not a number" in plots.training_curves_svg(job(points("loss", [math.nan] * 5)))


def test_memory_as_a_png() -> None:
    image = Image.open(io.BytesIO(plots.memory(example.record()) or b""))
    assert image.format == "PNG" and image.width > 1000


def test_no_memory_is_no_figure() -> None:
    assert plots.memory(JobRecord()) is None
    assert plots.memory_svg(job(points("loss", [1.0]))) is None


def test_svg_takes_its_colours_from_the_page() -> None:
    """Every colour is a variable with a default, so that dark and light both work."""
    for drawn in (plots.training_curves_svg(example.record()), plots.memory_svg(example.record()) or ""):
        bare = re.sub(r"var\(--plot-[a-z]+, #[0-9a-f]{6}\)", "", drawn)
        assert not re.findall(r"(?:fill|stroke): ?#[0-9a-f]{6}", bare)
        assert "<style" not in bare and "<metadata" not in bare and "<script" not in bare


def test_ids_of_two_figures_never_meet() -> None:
    record = example.record()
    drawn = [
        plots.training_curves_svg(record),
        plots.training_curves_svg(record, narrow=True),
        plots.memory_svg(record),
    ]
    ids = [re.findall(r'\bid="([^"]+)"', each or "") for each in drawn]
    assert sum(len(set(each)) for each in ids) == len({one for each in ids for one in each})
    for each in drawn:
        known = set(re.findall(r'\bid="([^"]+)"', each or ""))
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', each or "")) <= known


def test_the_same_job_gives_the_same_bytes() -> None:
    assert plots.training_curves_svg(example.record()) == plots.training_curves_svg(example.record())
    assert plots.training_curves(example.record()) == plots.training_curves(example.record())


def test_the_user_s_own_style_changes_nothing_and_is_left_alone() -> None:
    """Neither TeX text nor a dark style sheet of the user reaches our figures."""
    before = plots.training_curves_svg(example.record())
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "black", "font.size": 30}):
        assert plots.training_curves_svg(example.record()) == before
        assert matplotlib.rcParams["text.usetex"] is True


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys; from mlflow_resilience import plots; from mlflow_resilience.spool.record import JobRecord;"
        "plots.training_curves(JobRecord()); plots.training_curves_svg(JobRecord());"
        "assert not {'matplotlib.pyplot', 'tensorflow', 'mlflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_marks_that_would_fall_on_one_another_are_thinned() -> None:
    assert len(spread(range(100_000))) <= 301
    assert spread([3, 1, 1, 2]) == [1, 2, 3]


def test_a_log_axis_only_where_a_linear_one_would_hide_the_curve() -> None:
    assert wants_log([np.array([1.0, 1.0, 1.0, 5000.0])])
    assert not wants_log([np.array([1.0, 2.0, 3.0])])
    assert not wants_log([np.array([-1.0, 1.0, 1.0, 5000.0])])
    assert not wants_log([np.array([np.nan])])


def test_an_empty_series_has_no_columns() -> None:
    assert [len(each) for each in columns(Series())] == [0, 0]
