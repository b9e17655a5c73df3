"""A tensor of torch on a segment without a copy, pinned for GPUs where there is a CUDA runtime.

    python torch_view.py [SIZE] [PAGE]
"""

import sys

import torch

import pymemwright as mw


def main(size: str = "256M", page: str = "auto") -> None:
    segment = mw.Segment(size, page=page)
    tensor = torch.frombuffer(segment.view, dtype=torch.float32).reshape(-1, 1024)
    assert tensor.data_ptr() == segment.address
    print(f"{tuple(tensor.shape)} floats at {tensor.data_ptr():#x} on {segment.page} pages, no copy")

    tensor.fill_(0.5)
    # A second tensor on the same bytes sees what the first one has written.
    print(f"sum: {torch.frombuffer(segment.view, dtype=torch.float32).sum().item():.0f}")

    try:
        with mw.register_cuda(segment, align=tensor.shape[1] * tensor.element_size()):
            if torch.cuda.is_available():
                # Without a context of its own, torch takes no memory for pinned.
                torch.ones(1, device="cuda")
            print(f"pinned: {tensor.is_pinned()}")
    except mw.NoCuda:
        print("no CUDA runtime: not pinned")

    try:
        segment.close()
    except BufferError as error:
        print(f"closed, and {error}: {tensor[-1, -1].item()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
