"""What training does with storage: load safetensors, save and load a checkpoint, read batches of tokens."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.storage.block_io import Transfer, WrongData, evict, write
from configs.storage import DIRECT_BYTES

TENSOR_BYTES = 16 * 2**20  # about a projection of a small model
TOKEN_BYTES = 4  # token ids as 32-bit numbers, as vocabularies beyond 65,536 need them


def tensors(size: int, rank: int, device: torch.device) -> dict[str, Tensor]:
    """About `size` bytes of bf16 tensors, every one filled with a number of its own."""
    count = max(size // TENSOR_BYTES, 1)
    elements = min(size, TENSOR_BYTES) // 2
    return {
        f"rank{rank}.layers.{i}.weight": torch.full((elements,), _mark(rank, i), dtype=torch.bfloat16, device=device)
        for i in range(count)
    }


def safetensors_load(folder: Path, size: int, rank: int, device: torch.device) -> Transfer:
    """Load one file of weights onto `device`, every page of it: on the processor a load alone only maps the file."""
    path = folder / f"rank{rank}.safetensors"
    save_file(tensors(size, rank, torch.device("cpu")), path)
    cache = evict([path])
    started = time.perf_counter()
    loaded = load_file(path, device=str(device))
    for tensor in loaded.values():
        touched = tensor.view(torch.uint8)[::DIRECT_BYTES].sum()
    if device.type != "cpu":
        float(touched)  # waits for the copies
    seconds = time.perf_counter() - started
    _check(loaded, rank)
    transferred = path.stat().st_size
    path.unlink()
    return Transfer(transferred, seconds, len(loaded), cache, tool="safetensors")


def checkpoint_save(folder: Path, size: int, rank: int, device: torch.device) -> Transfer:
    """Save a sharded checkpoint with torch.distributed.checkpoint, all ranks together; its files are synced."""
    state = tensors(size, rank, device)
    started = time.perf_counter()
    checkpoint.save(state, storage_writer=checkpoint.FileSystemWriter(folder / "checkpoint", sync_files=True))
    seconds = time.perf_counter() - started
    return Transfer(_bytes(state), seconds, len(state), "fsync", tool="torch.distributed.checkpoint")


def checkpoint_load(folder: Path, size: int, rank: int, device: torch.device) -> Transfer:
    """Load that checkpoint into other tensors, all ranks together, and compare."""
    state = {name: torch.zeros_like(tensor) for name, tensor in tensors(size, rank, device).items()}
    cache = evict([path for path in (folder / "checkpoint").iterdir() if path.is_file()])
    dist.barrier()
    started = time.perf_counter()
    checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(folder / "checkpoint"))
    seconds = time.perf_counter() - started
    _check(state, rank)
    return Transfer(_bytes(state), seconds, len(state), cache, tool="torch.distributed.checkpoint")


class Tokens(Dataset[Tensor]):
    """Sequences of a file of token ids, mapped and not read in, as packed data sets are."""

    def __init__(self, path: Path, seq_len: int) -> None:
        self._ids = np.memmap(path, dtype=np.uint32, mode="r")
        self._seq_len = seq_len

    def __len__(self) -> int:
        return len(self._ids) // self._seq_len

    def __getitem__(self, index: int) -> Tensor:
        start = index * self._seq_len
        return torch.from_numpy(self._ids[start : start + self._seq_len].astype(np.int64))


def data_loader(
    folder: Path, size: int, rank: int, seq_len: int, micro_batch: int, workers: int, max_seconds: float
) -> Transfer:
    """Read batches of shuffled sequences through torch's DataLoader, at most one epoch; bytes are the tokens'."""
    path = folder / f"rank{rank}.tokens"
    block = 2**20 if size >= 2**20 else DIRECT_BYTES
    write(path, size, block, direct=False, max_seconds=float("inf"))
    cache = evict([path])
    generator = torch.Generator().manual_seed(rank)
    loader = DataLoader(
        Tokens(path, seq_len), batch_size=micro_batch, shuffle=True, num_workers=workers, generator=generator
    )
    tokens, batches, started = 0, 0, time.perf_counter()
    for batch in loader:
        tokens += batch.numel()
        batches += 1
        if time.perf_counter() - started >= max_seconds:
            break
    seconds = time.perf_counter() - started
    path.unlink()
    facts = {"tokens": float(tokens)}
    return Transfer(tokens * TOKEN_BYTES, seconds, batches, cache, tool="torch DataLoader", facts=facts)


def _mark(rank: int, index: int) -> int:
    """A whole number that bf16 holds exactly."""
    return (rank * 31 + index) % 251 + 1


def _bytes(state: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


def _check(state: dict[str, Tensor], rank: int) -> None:
    for index in range(len(state)):
        tensor = state[f"rank{rank}.layers.{index}.weight"]
        if not bool((tensor == _mark(rank, index)).all()):
            raise WrongData(f"tensor {index} of rank {rank} came back with other values")
