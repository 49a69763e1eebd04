"""The command of MLproject's entry point `drill`: `mlflow-resilience drill`, from this very tree."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlflow_resilience.cli import main

main(["drill", *sys.argv[1:]])
