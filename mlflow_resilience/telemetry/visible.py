"""Which GPUs CUDA lets this process use, from CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from collections.abc import Sequence

#: A device's place among the driver's, or the identity of an instance of a partitioned one (MIG).
Choice = int | str


def chosen(setting: str | None, identities: Sequence[str]) -> list[Choice]:
    """The devices that the setting names, in its order, as CUDA reads it: all when it is unset, none when it is
    empty, those before the first entry that is not known, and none when one is named twice."""
    if setting is None:
        return list(range(len(identities)))
    found: list[Choice] = []
    for entry in setting.split(","):
        choice = _choice(entry.strip(), identities)
        if choice is None:
            break
        found.append(choice)
    return found if len(set(found)) == len(found) else []


def _choice(entry: str, identities: Sequence[str]) -> Choice | None:
    if entry.isdecimal():
        return int(entry) if int(entry) < len(identities) else None
    if entry.startswith("MIG-"):
        return entry
    if entry.startswith("GPU-"):
        places = [place for place, identity in enumerate(identities) if identity.startswith(entry)]
        return places[0] if len(places) == 1 else None  # a shortened identity must be unique
    return None
