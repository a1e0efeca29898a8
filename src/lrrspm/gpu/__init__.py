"""The same vectors on a GPU: images of several sizes in batches, through torch.

This module needs no torch; those that compute are imported where a device is asked
for. Plain operations run on any device of torch; on CUDA dense SIFT and the
maxima of low-rank codes are kernels of Triton.
"""

from .device import DeviceError, check_device, describe_device

__all__ = ["DeviceError", "check_device", "describe_device"]
