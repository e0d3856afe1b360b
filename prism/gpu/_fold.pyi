import torch

def fold(
    rows: list[tuple[int, int]],
    out: tuple[int, int],
    pieces: list[tuple[int, int, int]],
    parts: list[tuple[tuple[int, int], list[tuple[int, int]], tuple[int, ...]]],
    dtype: torch.dtype,
    reduce: str,
    factor: float = 1.0,
    threads: int = 0,
) -> None: ...
