"""Secrets are taken out of texts before they are stored anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

HIDDEN = "[redacted]"

_SECRET_NAME = re.compile(
    r"TOKEN(?!S|IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|CONNECTION_STRING|API_?KEY|(?:^|_)(?:KEYS?|PWD|AUTH|PAT|DSN)(?:_|\d|$)"
)
_HARMLESS = re.compile(r"^(?:true|false|disabled|[~.]{0,2}/(?:[\w.+-]+/)*[\w.+-]*)$", re.IGNORECASE)
_LEAST = 8  # characters; a shorter value would be found inside ordinary words

#: What is kept stands in the groups named ``before`` and ``after``.
_SHAPES = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"(?P<before>-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?P<after>-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        (r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@'\"]*:)[^\s@/'\"]+(?P<after>@)", re.IGNORECASE),
        (r"(?P<before>\b[a-z][a-z0-9+.-]*://)[^\s:/@'\"]{20,}(?P<after>@)", re.IGNORECASE),
        (r"(?P<before>\b(?:Bearer|Basic|Token)\s+)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE),
        (r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", 0),
        (r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{40,}|glpat-[\w-]{20,})", 0),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", 0),
        (r"\b(?:hf_[A-Za-z0-9]{30,}|sk-[\w-]{20,}|xox[abposr]-[\w-]{10,})", 0),
        (r"\b(?:npm_\w{36}|pypi-[\w-]{50,}|dapi[0-9a-f]{32})", 0),
        (r"(?P<before>\bhooks\.slack\.com/[a-z]+/)[\w/-]+", re.IGNORECASE),
        (r"(?P<before>\bdiscord(?:app)?\.com/api/webhooks/\d+/)[\w-]+", re.IGNORECASE),
        (r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\b1//[\w-]{30,}", 0),
        (
            r"(?P<before>[?&;](?:sig|X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature|"
            r"X-Goog-Credential|access_token|token|api_?key|key)=)[^&\s'\"]+",
            re.IGNORECASE,
        ),
        (r"(?P<before>\b(?:AccountKey|SharedAccessSignature|SharedAccessKey)=)[^;\s'\"]+", re.IGNORECASE),
        (
            r"(?P<before>\b\w*(?:passw(?:or)?d|passphrase|secret|api_?key|access_?key|auth_?token|access_?token|private_?key)"
            r"\w*['\"]?\s*[:=]\s*['\"]?)(?!None\b|null\b|True\b|False\b|\[|\{|\()[^\s'\",;&)}\]]{6,}",
            re.IGNORECASE,
        ),
    )
)


def secrets(environ: Mapping[str, str]) -> list[str]:
    """The values of environment variables whose names say that they are secret, longest first."""
    found = {
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name.upper()) and len(value) >= _LEAST and not _HARMLESS.match(value)
    }
    return sorted(found, key=len, reverse=True)


def redact(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text without secrets: those of the environment, and whatever has the shape of one."""
    for secret in secrets(environ):
        text = text.replace(secret, HIDDEN)
    for shape in _SHAPES:
        text = shape.sub(lambda match: _kept(match, "before") + HIDDEN + _kept(match, "after"), text)
    return text


def _kept(match: re.Match[str], group: str) -> str:
    return match.groupdict().get(group) or ""
