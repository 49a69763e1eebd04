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

#: Words of which one must be there, in lower case, for a shape to be looked for; and the shape. What is kept of it
#: stands in the groups named ``before`` and ``after``. The words cost next to nothing, which the shapes would not.
_SHAPES = tuple(
    (hints.split(), re.compile(pattern, flags))
    for hints, pattern, flags in (
        (
            "-----begin",
            r"(?P<before>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?"
            r"(?P<after>-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        ("://", r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@'\"]*:)[^\s/'\"]+(?P<after>@)", re.IGNORECASE),
        ("://", r"(?P<before>\b[a-z][a-z0-9+.-]*://)[^\s:/@'\"]{20,}(?P<after>@)", re.IGNORECASE),
        ("bearer", r"(?P<before>\bBearer\s+)(?=[^\s]*\d)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE),
        (
            "authorization",
            r"(?P<before>\bAuthorization['\"]?\s*[:=]\s*['\"]?(?:Basic|Token)\s+)[A-Za-z0-9._~+/=-]{6,}",
            re.IGNORECASE,
        ),
        ("akia asia abia acca", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", 0),
        ("ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}", 0),
        ("github_pat_ glpat-", r"\b(?:github_pat_\w{40,}|glpat-[\w-]{20,})", 0),
        ("eyj", r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", 0),
        (
            "hf_ sk- xox xapp-",
            r"\b(?:hf_[A-Za-z0-9]{30,}|sk-(?=[\w-]*\d)[\w-]{20,}|(?:xox[abeposr]|xapp)-[\w-]{10,})",
            0,
        ),
        ("k_live_ k_test_", r"\b[rs]k_(?:live|test)_\w{16,}", 0),
        ("sg. gocspx-", r"\b(?:SG\.[\w-]{16,}\.[\w-]{16,}|GOCSPX-[\w-]{20,})", 0),
        ("pwd", r"(?P<before>\bpwd\s*=\s*)(?![/~.])[^\s;'\",&]{6,}", re.IGNORECASE),
        ("npm_ pypi- dapi", r"\b(?:npm_\w{36}|pypi-[\w-]{50,}|dapi[0-9a-f]{32})", 0),
        ("hooks.slack.com", r"(?P<before>\bhooks\.slack\.com/[a-z]+/)[\w/-]+", re.IGNORECASE),
        ("api/webhooks/", r"(?P<before>\bdiscord(?:app)?\.com/api/webhooks/\d+/)[\w-]+", re.IGNORECASE),
        ("aiza ya29. 1//", r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\b1//[\w-]{30,}", 0),
        (
            "sig= signature= credential= token= key=",
            r"(?P<before>[?&;](?:sig|X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature|"
            r"X-Goog-Credential|access_token|token|api_?key|key)=)[^&\s'\"]+",
            re.IGNORECASE,
        ),
        (
            "accountkey= sharedaccess",
            r"(?P<before>\b(?:AccountKey|SharedAccessSignature|SharedAccessKey)=)[^;\s'\"]+",
            re.IGNORECASE,
        ),
        (
            "passw passphrase secret api_key apikey access_key accesskey auth_token authtoken access_token accesstoken "
            "private_key privatekey",
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
    lower = text.lower()
    for hints, shape in _SHAPES:
        if any(hint in lower for hint in hints):
            text = shape.sub(lambda match: _kept(match, "before") + HIDDEN + _kept(match, "after"), text)
    return text


def redact_named(name: str, value: str) -> str:
    """The value of a param or the like without secrets; hidden whole where its name says that it is one."""
    found, told = redact(value), f"{name}={value}"
    return HIDDEN if found == value and redact(told) != told else found


def _kept(match: re.Match[str], group: str) -> str:
    return match.groupdict().get(group) or ""
