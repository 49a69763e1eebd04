"""Whose memory it was: a page for every fault of memory, from what the journal holds, whoever judged it."""

from __future__ import annotations

from mlflow_resilience.forensics.document import MODEL_SIZE, concerns, document

__all__ = ["MODEL_SIZE", "concerns", "document"]
