"""GPUs as the driver reports them, through nvidia-ml-py; silence where no driver answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from mlflow_resilience.telemetry.units import megabytes
from mlflow_resilience.telemetry.visible import Choice, chosen


class Nvml:
    """The driver's interface, opened once in a process; a driver that refused is not asked again.

    ``problem`` says why there is no GPU to see, when there is more to say than that no driver is installed.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._devices: list[tuple[int, Any]] = []
        self._api: Any = None
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            self._api = pynvml
            self._devices = list(enumerate(self._visible(os.environ)))
        except pynvml.NVMLError_LibraryNotFound:
            return
        except (pynvml.NVMLError, OSError) as error:
            self.problem = _words(error)

    def driver(self) -> str:
        """The driver's version; empty where none answers."""
        return str(self._ask("nvmlSystemGetDriverVersion") or "")

    def names(self) -> list[str]:
        """The names of the devices that this process may use."""
        return [str(self._ask("nvmlDeviceGetName", handle) or "GPU") for _, handle in self._devices]

    def read(self, own: Collection[int]) -> list[dict[str, Any]]:
        """One entry a device: index as TensorFlow numbers it, name, used and total memory, utilisation, own share.

        A value that the driver does not give is left out; a device that does not answer at all has ``problem``.
        """
        return [self._read_device(index, handle, own) for index, handle in self._devices]

    def _read_device(self, index: int, handle: Any, own: Collection[int]) -> dict[str, Any]:
        entry: dict[str, Any] = {"index": index}
        try:
            memory = self._api.nvmlDeviceGetMemoryInfo(handle)
        except self._api.NVMLError as error:
            return entry | {"problem": _words(error)}
        entry |= {"used_mb": megabytes(memory.used), "total_mb": megabytes(memory.total)}
        if name := self._ask("nvmlDeviceGetName", handle):
            entry["name"] = str(name)
        if rates := self._ask("nvmlDeviceGetUtilizationRates", handle):
            entry["utilisation_percent"] = int(rates.gpu)
        if (share := self._own_share(handle, own)) is not None:
            entry["own_mb"] = megabytes(share)
        return entry

    def _own_share(self, handle: Any, own: Collection[int]) -> int | None:
        """Bytes that our processes hold; None where the driver lists none of ours. Then we may hold nothing, or
        run in a container, whose process ids are not those that the driver knows."""
        processes = (
            self._ask("nvmlDeviceGetComputeRunningProcesses_v3", handle)
            or self._ask("nvmlDeviceGetComputeRunningProcesses_v2", handle)  # drivers before 510
            or []
        )
        shares = [each.usedGpuMemory for each in processes if each.pid in own and each.usedGpuMemory is not None]
        return sum(shares) if shares else None

    def _visible(self, environment: Any) -> list[Any]:
        count = self._api.nvmlDeviceGetCount()
        handles = [self._ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        identities = [str((handle and self._ask("nvmlDeviceGetUUID", handle)) or "") for handle in handles]
        found = []
        for choice in chosen(environment.get("CUDA_VISIBLE_DEVICES"), identities):
            handle = self._handle(choice, handles)
            if handle is None:
                break  # CUDA stops at the first entry that it cannot find
            found.append(handle)
        return found

    def _handle(self, choice: Choice, handles: list[Any]) -> Any:
        if isinstance(choice, str):
            return self._ask("nvmlDeviceGetHandleByUUID", choice.encode())
        return self._instance(handles[choice])

    def _instance(self, handle: Any) -> Any:
        """The device, or the first instance of one that is partitioned (MIG): the one that CUDA would take."""
        if handle is None:
            return None
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        if not mode or not mode[0]:
            return handle
        for index in range(self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            instance = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if instance is not None:
                return instance
        return None

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The answer, or None where this driver or device has none."""
        function: Callable[..., Any] | None = getattr(self._api, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except self._api.NVMLError:
            return None


_opened: dict[int, Nvml] = {}


def nvml() -> Nvml:
    """The driver's interface of this process (a forked child opens its own)."""
    process = os.getpid()
    if process not in _opened:
        _opened.clear()
        _opened[process] = Nvml()
    return _opened[process]


def _words(error: Exception) -> str:
    return f"{type(error).__name__.removeprefix('NVMLError_')}: {error}"
