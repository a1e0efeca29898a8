"""Devices: found by name, or a reason why they cannot be used."""

from __future__ import annotations

REFERENCE = "torch"
"""Name of torch's own CPU device: the operations of a GPU, to compare with."""


class DeviceError(ValueError):
    """A device that cannot be used here."""


def check_device(name: str) -> str:
    """Return torch's name of a device; raise DeviceError where it cannot be used.

    Parameters
    ----------
    name : str
        "cuda", "cuda:1" and so on, or "torch".
    """
    if name != REFERENCE and name.partition(":")[0] != "cuda":
        raise DeviceError(f"there is no device {name!r}; there are: cpu, cuda, {REFERENCE}")
    try:
        import torch
    except ImportError:
        raise DeviceError(f"device {name!r} needs torch; install lrrspm[gpu]") from None
    if name == REFERENCE:
        return "cpu"
    try:
        index = torch.device(name).index or 0
    except RuntimeError:
        raise DeviceError(f"there is no device {name!r}; number GPUs as in cuda:0") from None
    count = torch.cuda.device_count()
    if index >= count:
        raise DeviceError(f"device {name!r} was not found: torch {torch.__version__} sees {count}")
    return name


def describe_device(name: str) -> list[str]:
    """Return what the last bits of results on a device depend on."""
    import torch

    device = check_device(name)
    chip = torch.cuda.get_device_name(device) if device != "cpu" else "CPU"
    return [chip, torch.__version__, torch.get_float32_matmul_precision()]
