"""Texts with secrets of the usual shapes, made up here: none of them stands anywhere as a whole, nor opens anything."""

from __future__ import annotations

import base64
import json
import random
import string

_DICE = random.Random(11)
_WORD = string.ascii_letters + string.digits


def _any(length: int, letters: str = _WORD) -> str:
    return "7" + "".join(_DICE.choices(letters, k=length - 1))  # a digit at least, as real ones have


def _url_safe(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _key(kind: str) -> tuple[str, str]:
    body = "\n".join(_any(64) for _ in range(6))
    mark = "PRIVATE " + "KEY"
    return f"-----BEGIN {kind}{mark}-----\n{body}\n-----END {kind}{mark}-----", body.split("\n")[2]


def _made() -> dict[str, tuple[str, str]]:
    upper = string.ascii_uppercase + string.digits
    aws, aws_secret, session = "AK" + "IA" + _any(16, upper), _any(40), _any(120)
    jwt = ".".join([_url_safe({"alg": "HS256"}), _url_safe({"sub": _any(12)}), _any(43)])
    rsa, rsa_body = _key("RSA ")
    plain, plain_body = _key("")
    google = {"type": "service_account", "private_key_id": _any(40, "0123456789abcdef"), "private_key": plain}
    azure, sas = _any(86) + "==", _any(43) + "%3D"
    password, dsn = _any(14), _any(16)
    found = {
        "AWS key id": (f"InvalidAccessKeyId: {aws}", aws),
        "AWS secret": (f"aws_secret_access_key = {aws_secret}", aws_secret),
        "AWS session": (f"AWS_SESSION_TOKEN=x aws_access_token={session}", session),
        "AWS signed URL": (f"https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature={_any(64)}", ""),
        "GitHub": (f"remote: bad credentials gh{'p'}_{_any(36)}", ""),
        "GitHub fine-grained": (f"token github{'_pat_'}{_any(60)}", ""),
        "GitLab": (f"fatal: glp{'at'}-{_any(20)}", ""),
        "Slack": (f"slack: xox{'b'}-{_any(12, string.digits)}-{_any(24)}", ""),
        "Slack hook": (f"POST https://hooks.slack.com/services/T{_any(8)}/B{_any(8)}/{_any(24)} 404", ""),
        "JWT": (f"expired: {jwt}", jwt),
        "bearer": (f"Authorization: Bearer {_any(40)}", ""),
        "basic": (f"Authorization: Basic {_any(24)}", ""),
        "PEM": (f"could not parse {rsa}", rsa_body),
        "URL": (f"could not connect to https://ada:{password}@mlflow.example:5000/api", password),
        "database URL": (f"(psycopg2.OperationalError) postgresql+psycopg2://mlflow:{dsn}@db/mlflow", dsn),
        "password with @": (f"mysql://bob:{password}@{dsn}@db:3306/x", dsn),
        "ODBC": (f"Driver=x;Server=y;Uid=ada;Pwd={password}9;", password + "9"),
        "Azure storage": (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={azure};", azure),
        "Azure SAS": (f"https://a.blob.core.windows.net/c/f?sv=2024&sp=r&sig={sas}&se=2027", sas),
        "Databricks": (f"databricks: da{'pi'}{_any(32, '0123456789abcdef')}", ""),
        "Hugging Face": (f"401 for hf{'_'}{_any(34)}", ""),
        "OpenAI": (f"Incorrect API key: s{'k'}-proj-{_any(48)}", ""),
        "Google API": (f"key AI{'za'}{_any(35)}", ""),
        "Google account": (json.dumps(google), plain_body),
        "password in a call": (f"connect(host='db', password='{password}x')", password + "x"),
        "JSON": (json.dumps({"api_key": dsn + "y"}), dsn + "y"),
    }
    return {name: (text, secret or _longest(text)) for name, (text, secret) in found.items()}


def _longest(text: str) -> str:
    """The longest run of letters and digits: the secret's own part."""
    return max("".join(each if each in _WORD else " " for each in text).split(), key=len)


#: Kind -> a text, and what of it must never be stored.
SECRETS = _made()

#: What must stay as it is.
ORDINARY = (
    "step 12345678 of 99999999, loss 0.123456789, 6.02214076e+23",
    "/data/3f786850e387550fdab836ed7e6dc881de23001b/part-0001.tfrecord",
    "run 0a1b2c3d4e5f60718293a4b5c6d7e8f9 not found",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "550e8400-e29b-41d4-a716-446655440000",
    "m-4d2a8c1f0b3e4a5d9c7e6f5a4b3c2d1e",
    "https://example.com:5000/api/2.0/mlflow/runs/create?run_id=0a1b2c3d",
    "OOM when allocating tensor with shape[64,512,512,64] and type float on /device:GPU:0 by allocator GPU_0_bfc",
    "checkpoint-20261130-120000-a1b2c3",
    "Key: image/label.  Can't parse serialized Example.",
    "max_tokens=4096, tokenizer=bert-base-uncased-v1",
    "password=None, token classification_head_weights, Basic understanding2vector",
    "resilience.resume_key=blake2b:77d1c5a0e5b94f33",
    "PWD=/home/ada/projects/model",
    "ask-me-anything-2024 task-0123456789-abcdefghij",
    "2027-01-15T08:00:00+00:00 worker[4711]: exit code 139",
    "<tf.Tensor: shape=(2, 3), dtype=float32, numpy=array([[0.1, 0.2, 0.3]])>",
    "C:\\Users\\ada\\model.keras",
)
