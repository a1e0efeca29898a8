"""Devices: found by name, or a reason why they cannot be used."""

from __future__ import annotations

try:
    import torch
except ImportError:  # the reason is given where a device is asked for
    torch = None


class DeviceError(RuntimeError):
    """A device that cannot be used here."""


def check_device(name: str) -> str:
    """Return the name of a device of torch; raise DeviceError where it cannot be used."""
    if torch is None:
        raise DeviceError(f"device {name!r} needs torch; install lrrspm[gpu]")
    try:
        device = torch.device(name.removeprefix("torch:"))
    except RuntimeError:
        raise DeviceError(f"there is no device {name!r}; try 'cpu' or 'cuda'") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"device {name!r} was not found: torch {torch.__version__} sees "
            f"{torch.cuda.device_count()} GPUs"
        )
    return str(device)
