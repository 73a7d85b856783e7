"""Plain reads and writes of one file, past the page cache where the file system lets us, and what the cache holds.

Every 4096 bytes begin with their own number, so a read that returns something else is an error and no speed.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from configs.storage import DIRECT_BYTES

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
O_DIRECT = getattr(os, "O_DIRECT", 0)


class WrongData(RuntimeError):
    """The storage returned other bytes than were written."""


@dataclass(frozen=True)
class Transfer:
    """One rank's part of a test. latencies_us: of single reads, where those were timed."""

    bytes: int
    seconds: float
    operations: int
    cache: str  # direct: past the page cache | evicted: dropped from it before | cached: read from memory | fsync
    tool: str = "own loop"
    latencies_us: list[float] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)


def supports_direct(folder: Path) -> bool:
    """Whether files in `folder` can be written and read past the page cache; some network file systems cannot.

    tmpfs accepts the flag in newer kernels, but there is nothing past the cache to go to.
    """
    if not O_DIRECT or file_system(folder) in IN_MEMORY:
        return False
    path = folder / f"direct-{os.getpid()}"
    block = _block(DIRECT_BYTES)
    try:
        file = os.open(path, os.O_CREAT | os.O_RDWR | O_DIRECT, 0o600)
        try:
            os.pwrite(file, block, 0)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            return False
        raise
    finally:
        path.unlink(missing_ok=True)
    return True


def write(path: Path, size: int, block: int, direct: bool, max_seconds: float) -> Transfer:
    """Write up to `size` bytes in order, then fsync; the time includes the fsync."""
    buffer = _block(block)
    numbers = np.frombuffer(buffer, dtype=np.uint64).reshape(-1, DIRECT_BYTES // 8)
    numbers[:] = np.random.default_rng(0).integers(0, 2**63, size=numbers.shape, dtype=np.uint64)  # not compressible
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | (O_DIRECT if direct else 0), 0o600)
    try:
        done, started = 0, time.perf_counter()
        while done + block <= size and (done == 0 or time.perf_counter() - started < max_seconds):
            numbers[:, 0] = np.arange(done // DIRECT_BYTES, (done + block) // DIRECT_BYTES)
            if os.pwrite(file, buffer, done) != block:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += block
        os.fsync(file)
        return Transfer(done, time.perf_counter() - started, done // block, "direct" if direct else "fsync")
    finally:
        os.close(file)


def read_sequential(path: Path, block: int, direct: bool, max_seconds: float) -> Transfer:
    """Read the file from its start, at most once: a second round would come from the disk's own cache."""
    return _read(path, np.arange(path.stat().st_size // block) * block, block, direct, max_seconds)


def read_random(path: Path, block: int, direct: bool, max_seconds: float, seed: int) -> Transfer:
    """Read every block of the file at most once, in random order, one after another (queue depth 1)."""
    offsets = np.random.default_rng(seed).permutation(path.stat().st_size // block) * block
    return _read(path, offsets, block, direct, max_seconds)


def _read(path: Path, offsets: np.ndarray, block: int, direct: bool, max_seconds: float) -> Transfer:
    cache = "direct" if direct else evict([path])
    buffer = _block(block)
    first = np.frombuffer(buffer, dtype=np.uint64)[:1]
    latencies = []
    file = os.open(path, os.O_RDONLY | (O_DIRECT if direct else 0))
    try:
        started = before = time.perf_counter()
        for offset in offsets:
            if before - started >= max_seconds and latencies:
                break
            if os.preadv(file, [buffer], int(offset)) != block or int(first[0]) != offset // DIRECT_BYTES:
                raise WrongData(f"the block at {offset} of {path.name} is not what was written")
            after = time.perf_counter()
            latencies.append((after - before) * 1e6)
            before = after
        return Transfer(len(latencies) * block, before - started, len(latencies), cache, latencies_us=latencies)
    finally:
        os.close(file)


def evict(paths: list[Path]) -> str:
    """Drop the files from the page cache as far as the kernel lets us: "evicted", or "cached" where they stay in it."""
    for path in paths:
        if hasattr(os, "posix_fadvise"):
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)  # what is not on the disk yet cannot be dropped
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
    return "evicted" if all(resident_share(path) < 0.05 for path in paths) else "cached"


def resident_share(path: Path) -> float:
    """The share of a file's pages that the page cache holds, as mincore(2) tells; 1 where it cannot be asked."""
    size = path.stat().st_size
    if not size or not hasattr(mmap, "MAP_PRIVATE"):
        return 0.0 if not size else 1.0
    with path.open("rb") as file:
        # private and writable, for only then does Python give its address away; nothing is written
        view = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    pages = -(-size // mmap.PAGESIZE)
    states = (ctypes.c_ubyte * pages)()
    start = ctypes.c_char.from_buffer(view)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), states)
        return 1.0 if failed else sum(state & 1 for state in states) / pages
    finally:
        del start
        view.close()


def file_system(folder: Path) -> str:
    """The type of the file system that `folder` is on: ext4, xfs, nfs4, tmpfs ..."""
    here = folder.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if here.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def _block(size: int) -> mmap.mmap:
    """A page-aligned buffer: O_DIRECT takes no other."""
    return mmap.mmap(-1, size)
