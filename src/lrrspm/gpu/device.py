"""Devices: found by name, or a reason why they cannot be used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

REFERENCE = "torch"
"""Name of torch's own CPU device: the operations of a GPU, to compare with."""


_DRIVERS = "/dev/nvidiactl", "/dev/dxg"
"""Files of NVIDIA's drivers, on Linux and in its subsystem for Windows."""

_PINNED = 2**29
"""Most bytes that come from a GPU through pinned memory at once."""

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""True if Triton runs kernels in Python, on any device: slow, but it shows what they compute."""


def has_kernels(tensor: torch.Tensor) -> bool:
    """True if kernels compute what is on a tensor's device."""
    return bool(tensor.is_cuda) or INTERPRETED


def send(array: NDArray[Any], device: torch.device | str) -> torch.Tensor:
    """Return an array on a device; to a GPU from pinned memory, while the host goes on.

    From other memory, CUDA would wait until all that was asked for before is done.
    """
    import torch

    tensor, device = torch.from_numpy(array), torch.device(device)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def fetch(tensor: torch.Tensor) -> NDArray[Any]:
    """Return a tensor on the host; from a GPU through pinned memory, which is faster.

    Torch keeps that memory, in blocks of powers of two, so large results are copied directly.
    """
    import torch

    if not tensor.is_cuda or tensor.nbytes > _PINNED:
        return np.asarray(tensor.cpu())
    found = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return np.asarray(found.copy_(tensor))


class DeviceError(ValueError):
    """A device that cannot be used here."""


def precision_of_products() -> str:
    """Return torch's word for it: "highest" is single precision, "high" is tf32."""
    import torch

    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # torch.backends was told, which has other words
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


@contextmanager
def single_precision() -> Iterator[None]:
    """Let torch multiply in single precision, whatever it may use elsewhere."""
    import torch

    if precision_of_products() == "highest":
        yield
        return
    try:
        before, new = torch.get_float32_matmul_precision(), False
        torch.set_float32_matmul_precision("highest")
    except RuntimeError:  # torch.backends was told, see above
        before, new = torch.backends.cuda.matmul.fp32_precision, True
        torch.backends.cuda.matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        if new:
            torch.backends.cuda.matmul.fp32_precision = before
        else:
            torch.set_float32_matmul_precision(before)


def check_name(name: str) -> None:
    """Raise DeviceError for what is no name of a device; this needs no torch."""
    if name != REFERENCE and name.partition(":")[0] != "cuda":
        raise DeviceError(f"no device {name!r}; choose from: cpu, cuda, {REFERENCE}")
    # Not by torch, which takes 256 for 0.
    if name != REFERENCE and re.fullmatch("cuda(?::(0|[1-9][0-9]{0,8}))?", name) is None:
        raise DeviceError(f"no device {name!r}; number GPUs as in cuda:0")


def may_exist(name: str) -> bool:
    """True if torch, which is slow to import, and a driver for the device seem to be there."""
    driver = name == REFERENCE or any(map(os.path.exists, _DRIVERS))
    return driver and find_spec("torch") is not None


def check_device(name: str) -> str:
    """Return torch's name of a device; raise DeviceError where it cannot be used.

    Parameters
    ----------
    name : str
        "cuda", "cuda:1" and so on, or "torch".
    """
    check_name(name)
    try:
        import torch
    except (ImportError, OSError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise DeviceError(f"device {name!r} needs torch: pip install 'lrrspm[gpu]'") from None
        raise DeviceError(
            f"device {name!r} needs torch, which is installed but cannot be imported "
            f"({type(error).__name__}: {error}); reinstall it"
        ) from error
    if name == REFERENCE:
        return "cpu"
    count = torch.cuda.device_count()
    if int(name.partition(":")[2] or 0) >= count:
        raise DeviceError(f"device {name!r} was not found: torch {torch.__version__} sees {count}")
    if find_spec("triton") is None:
        raise DeviceError(f"device {name!r} needs Triton, which comes with torch on Linux")
    return name


def launched_there(function: Callable[P, R]) -> Callable[P, R]:
    """Launch a function's kernels on the GPU of its first tensor, and not on the current one."""

    @wraps(function)
    def launched(*args: P.args, **kwargs: P.kwargs) -> R:
        import torch

        with torch.cuda.device_of(args[0]):
            return function(*args, **kwargs)

    return launched


_FULL = re.compile(r"out of memory|_ALLOC_FAILED|DefaultCPUAllocator")
"""What RuntimeErrors say for which torch has no class: "CUDA error: out of memory" where pinned
memory of the host is asked for, CUBLAS_STATUS_ALLOC_FAILED and others of CUDA's libraries.
"""


@contextmanager
def full_memory_explained(name: str) -> Iterator[None]:
    """Raise DeviceError, which says what helps, where a device or its host has no memory left."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise DeviceError(
            f"the memory of device {name!r} is full; close other programs that use it, or compute "
            "on the CPU (--device cpu, device='cpu')"
        ) from None
    except RuntimeError as error:
        if _FULL.search(str(error)) is None:
            raise
        raise DeviceError(
            f"no memory is left on device {name!r}, or no pinned memory on its host "
            f"({str(error).splitlines()[0]}); close other programs that use it, raise the memory "
            "limit of the job or container, or compute on the CPU (--device cpu, device='cpu')"
        ) from None


def describe_device(name: str) -> list[str]:
    """Return what the last bits of results on a device depend on."""
    import torch

    device = check_device(name)
    chip = torch.cuda.get_device_name(device) if device != "cpu" else "CPU"
    found = [chip, torch.__version__, precision_of_products()]
    if device != "cpu" or INTERPRETED:
        import triton

        found += [f"triton {triton.__version__}", "interpreted" if INTERPRETED else "compiled"]
    return found
