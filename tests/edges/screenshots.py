"""Where the tests of pages leave what they saw: ``.screenshots``, or ``$MLFLOW_RESILIENCE_SCREENSHOTS``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("MLFLOW_RESILIENCE_SCREENSHOTS") or Path(__file__).parents[2] / ".screenshots")


def keep(page: Any, name: str, *, whole: bool = True) -> None:
    """Leave a picture of the page as it is now."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=FOLDER / f"{name}.png", full_page=whole)
