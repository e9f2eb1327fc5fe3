"""Freed memory that stays with the process, for loops whose every step asks for the same large tensors again.

And freed memory that does not stay, for a process that must not outgrow a ceiling.

glibc hands a large block back to the system when it is freed. A training step then gets its next hundred megabytes page
by page, each cleared by the kernel, which can take longer than what is computed in them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

# parameters of mallopt(3)
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
NEVER = -1
# where glibc's own thresholds end up in a process that frees large blocks; once set by hand they no longer move
RETURNED = {MMAP_THRESHOLD: 256 * 2**10, TRIM_THRESHOLD: 2**20}
USUAL = {MMAP_MAX: 65_536, MMAP_THRESHOLD: 32 * 2**20, TRIM_THRESHOLD: 64 * 2**20}


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep what is freed meanwhile, in the whole process; does nothing where the allocator is not glibc's."""
    with _told({MMAP_MAX: 0, TRIM_THRESHOLD: NEVER}):
        yield


@contextmanager
def freed_memory_returned() -> Iterator[None]:
    """Hand every larger block back when it is freed: a heap with holes would hold more than what is in use."""
    with _told(RETURNED):
        yield


@contextmanager
def _told(settings: Mapping[int, int]) -> Iterator[None]:
    library = _glibc()
    if library is None:
        yield
        return
    for parameter, value in settings.items():
        library.mallopt(parameter, value)
    try:
        yield
    finally:
        for parameter, value in USUAL.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)  # what is still kept goes back now, from between other blocks, too


@cache
def _glibc() -> Any:
    """Return the C library if it has the calls this needs, else None."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
