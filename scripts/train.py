"""The command of MLproject's entry point `main`: `mlflow-resilience train`, from this very tree.

An environment made by an environment manager may lack the package's folder (uv installs from a temporary copy).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlflow_resilience.cli import main

main(["train", *sys.argv[1:]])
