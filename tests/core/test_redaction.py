"""Secrets go, and nothing else."""

from __future__ import annotations

import pytest

from mlflow_resilience.core.redaction import HIDDEN, redact, redact_named
from tests.core.secret_shapes import ORDINARY, SECRETS


@pytest.mark.parametrize("kind", SECRETS)
def test_shapes_of_secrets(kind: str) -> None:
    """Found wherever they stand, and still hidden when redacted again."""
    told, secret = SECRETS[kind]
    once = redact(f"before {told} after", {})
    assert secret not in once
    assert HIDDEN in once
    assert once.startswith("before")
    assert redact(once, {}) == once


@pytest.mark.parametrize("told", ORDINARY)
def test_ordinary_text_stays(told: str) -> None:
    """Numbers, hashes, paths, ids of runs and commits, and shapes of tensors are no secrets."""
    assert redact(told, {}) == told


def test_a_value_whose_name_says_that_it_is_a_secret() -> None:
    """A param is hidden for its name; names that merely sound like it hide nothing."""
    assert redact_named("db_password", "correct horse") == HIDDEN
    assert redact_named("service.api_key", "abcdef123") == HIDDEN
    assert redact_named("resilience.resume_key", "blake2b:77d1c5a0") == "blake2b:77d1c5a0"
    assert redact_named("max_tokens", "4096") == "4096"
    assert redact_named("optimizer", "adam") == "adam"


def test_values_of_the_environment() -> None:
    """What the environment calls secret is hidden, if it is long enough to be one; paths and switches are not."""
    environ = {
        "DB_PASSWORD": "correcthorse",
        "WANDB_API_KEY": "0123456789abcdef",
        "SHORT_TOKEN": "abc",
        "GOOGLE_APPLICATION_CREDENTIALS": "/etc/keys/gcp.json",
        "TOKENIZERS_PARALLELISM": "disabled",
        "KEYBOARD_LAYOUT": "dvorak-left",
        "USE_TOKEN": "disabled",
    }
    told = "correcthorse 0123456789abcdef abc /etc/keys/gcp.json disabled dvorak-left"
    assert redact(told, environ) == f"{HIDDEN} {HIDDEN} abc /etc/keys/gcp.json disabled dvorak-left"


def test_longest_value_first() -> None:
    """A secret within a longer one does not leave the longer one's rest behind."""
    assert redact("abcdefgh-ijkl", {"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-ijkl"}) == HIDDEN
