import torch

def fold(
    rows: list[tuple[int, int]],
    out: tuple[int, int],
    pieces: list[tuple[int, int, int]],
    dtype: torch.dtype,
    reduce: str,
    factor: float = 1.0,
) -> None: ...
