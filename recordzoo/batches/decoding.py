"""JPEGs decoded on a device, a batch at once, and cropped and resized there (torchvision, with nvJPEG on CUDA)."""

from collections.abc import Sequence

import numpy as np
import torch
from torchvision.io import ImageReadMode, decode_jpeg

from recordzoo.batches.render import apply
from recordzoo.batches.steps import Action
from recordzoo.loading.frames import Frame, JpegFrame


def decode_batch(images: Sequence[tuple[Frame, list[Action]]], device: torch.device) -> torch.Tensor:
    """Decode images, and do to each what was decided.

    Returns:
        uint8 [N, 3, H, W] on the device.
    """
    files = [frame.data for frame, _ in images if isinstance(frame, JpegFrame)]
    data = [torch.from_numpy(np.frombuffer(file, np.uint8).copy()) for file in files]
    decoded = iter(decode_jpeg(data, mode=ImageReadMode.RGB, device=device) if data else ())
    made = []
    for frame, actions in images:
        if isinstance(frame, JpegFrame):
            image = next(decoded)
        else:  # one that only Pillow decodes
            image = torch.from_numpy(frame.pixels().copy()).permute(2, 0, 1).to(device)
        made.append(apply(image, actions, "fast"))
    return torch.stack(made)
