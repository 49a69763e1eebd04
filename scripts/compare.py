"""The command of MLproject's entry point `compare`: `mlflow-resilience compare`, from this very tree."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlflow_resilience.cli import main

main(["compare", *sys.argv[1:]])
