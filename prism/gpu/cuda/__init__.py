"""Ranks whose tensors lie on a GPU: everything of PRISM that knows CUDA."""
