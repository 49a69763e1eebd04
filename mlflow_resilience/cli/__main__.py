"""``python -m mlflow_resilience.cli``."""

from mlflow_resilience.cli.main import main

main()
