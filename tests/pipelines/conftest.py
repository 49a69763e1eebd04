"""A folder of pictures: two classes, twelve and eight files, in the formats that are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    drawn, folder = np.random.default_rng(0), tmp_path / "pictures"
    suffixes = ("jpg", "png", "bmp", "jpeg")
    for name, count in (("cat", 12), ("dog", 8)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = drawn.integers(0, 255, (24, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:02d}.{suffixes[number % 4]}")
    return folder


@pytest.fixture
def damaged(pictures: Path) -> Callable[[str], Path]:
    """Cuts a picture short."""

    def damage(name: str) -> Path:
        path = pictures / name
        path.write_bytes(path.read_bytes()[:40])
        return path

    return damage
