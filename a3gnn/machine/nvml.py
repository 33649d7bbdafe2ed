"""NVML: the energy counters of NVIDIA's GPUs, by the optional package nvidia-ml-py."""

from __future__ import annotations

from typing import Any

from a3gnn._imports import optional
from a3gnn.errors import A3GNNError


class NvmlCounter:
    """The energy of one GPU since this was made: the counter holds mJ in 64 bits, and does not wrap around.

    Args:
        index: torch's number of the device.

    Raises:
        MissingDependencyError: nvidia-ml-py is not installed.
        A3GNNError: The driver, or the GPU (before Volta), doesn't tell.
    """

    def __init__(self, index: int) -> None:
        import torch

        self._nvml: Any = optional("pynvml", "energy", "the energy of GPUs")
        try:
            self._nvml.nvmlInit()
            properties = torch.cuda.get_device_properties(index)
            self.name = f"cuda:{index} ({properties.name})"
            self._device = self._nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")
            self._first = self._millijoules()
        except self._nvml.NVMLError as error:
            raise A3GNNError(f"NVML doesn't tell the energy of cuda:{index}: {error}") from error

    def read(self) -> float:
        """Returns the joules that the GPU has taken since this was made.

        Raises:
            A3GNNError: The driver doesn't tell any more.
        """
        try:
            return (self._millijoules() - self._first) / 1e3
        except self._nvml.NVMLError as error:
            raise A3GNNError(f"NVML doesn't tell the energy of {self.name} any more: {error}") from error

    def _millijoules(self) -> int:
        return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device))
