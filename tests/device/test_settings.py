"""Device settings as users write them, and what of them belongs to a result."""

from __future__ import annotations

import pytest

from mlflow_resilience.device import DeviceSettings
from mlflow_resilience.errors import UsageError
from mlflow_resilience.parameters import Parameters


def test_settings_are_read() -> None:
    """Each word, sizes in bytes, and one number of threads for both kinds."""
    read = DeviceSettings.parse("memory_limit:4GB, threads:4,xla", "mixed_bfloat16")
    assert read == DeviceSettings(memory_limit=4 * 10**9, threads=(4, 4), xla=True, precision="mixed_bfloat16")
    assert DeviceSettings.parse("memory_growth,threads:4:2") == DeviceSettings(memory_growth=True, threads=(4, 2))
    assert DeviceSettings.parse("none") == DeviceSettings()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("device", text) for text in ("threads", "threads:0", "memory_limit:4", "memory_limit:1kB", "gpu", "xla:1")),
        ("device", "memory_growth,memory_limit:4GB"),
        ("device", "deterministic,xla"),
        *(("precision", text) for text in ("float16", "mixed", "")),
    ],
)
def test_what_cannot_be_read_is_one_line(name: str, text: str) -> None:
    """It names the parameter, before anything is trained."""
    with pytest.raises(UsageError, match=f"^{name}={text}: .+"):
        Parameters.from_text({name: text})


def test_only_what_changes_the_bits_tells_results_apart() -> None:
    """Threads and memory do not belong to the resume key."""
    assert DeviceSettings.parse("memory_limit:4GB,threads:4").identity() == {}
    assert DeviceSettings.parse("deterministic", "mixed_float16").identity() == {
        "precision": "mixed_float16",
        "deterministic": True,
    }
    assert DeviceSettings.parse("xla,threads:2").identity() == {"xla": True}
