"""Secrets go, and nothing else."""

from __future__ import annotations

import pytest

from mlflow_resilience.core.redaction import HIDDEN, redact

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("told", "secret"),
    [
        ("mysql://bob:hunter2secret@db:3306/x refused", "hunter2secret"),
        ("https://0123456789abcdef0123456789@github.com/x.git", "0123456789abcdef0123456789"),
        ("Authorization: Bearer abcdefghijklmnop1234", "abcdefghijklmnop1234"),
        ("key AKIAIOSFODNN7EXAMPLE is wrong", "AKIAIOSFODNN7EXAMPLE"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ("token ghp_0123456789abcdefghijklmnopqrstuvwxyz", "ghp_0123456789"),
        (JWT, "eyJhbGciOiJIUzI1NiJ9"),
        (KEY, "MIIEpAIBAAKCAQEA"),
        ("hf_abcdefghijklmnopqrstuvwxyzABCDEF is invalid", "hf_abcdefgh"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIzaSyA1234567890"),
        ("https://x.blob.core.windows.net/c?sv=1&sig=abc%2Fdef%3D&se=2", "abc%2Fdef%3D"),
        ("DefaultEndpointsProtocol=https;AccountKey=abcdefgh1234==;Endpoint=x", "abcdefgh1234"),
        ("connect(password='correcthorse')", "correcthorse"),
        ('{"api_key": "abcdef123456"}', "abcdef123456"),
        ("dapi0123456789abcdef0123456789abcdef", "dapi0123456789abcdef"),
    ],
)
def test_shapes_of_secrets(told: str, secret: str) -> None:
    """Known shapes of keys and tokens are found wherever they stand, and stay hidden when redacted again."""
    once = redact(told, {})
    assert secret not in once
    assert HIDDEN in once
    assert redact(once, {}) == once


@pytest.mark.parametrize(
    "told",
    [
        "step 12345678 of 99999999, loss 0.123456789",
        "/data/3f786850e387550fdab836ed7e6dc881de23001b/part-0001.tfrecord",
        "run 0a1b2c3d4e5f60718293a4b5c6d7e8f9 not found",
        "https://example.com:5000/api/2.0/mlflow/runs/create?run_id=0a1b2c3d",
        "OOM when allocating tensor with shape[64,512,512,64] and type float on /device:GPU:0",
        "checkpoint-20261130-120000-a1b2c3",
        "Key: image/label.  Can't parse serialized Example.",
        "max_tokens=4096, tokenizer=bert",
        "password=None",
    ],
)
def test_ordinary_text_stays(told: str) -> None:
    """Numbers, hashes in paths, run ids and shapes are no secrets."""
    assert redact(told, {}) == told


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
