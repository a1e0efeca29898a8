"""The same vectors on a GPU: images of several sizes in batches, through torch.

Imported only where a device is asked for, so torch is needed only there. Plain
operations run on any device of torch; on CUDA the largest steps of ``fast`` are
kernels of Triton.
"""

from .device import DeviceError, check_device
from .encoding import DeviceChannels, check_channels

__all__ = ["DeviceChannels", "DeviceError", "check_channels", "check_device"]
