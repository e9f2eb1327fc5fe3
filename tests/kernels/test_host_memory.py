from __future__ import annotations

import subprocess
import sys

import pytest

from powerlink.kernels import host_memory
from powerlink.kernels.host_memory import freed_memory_kept

# A process of its own: whether memory goes back to the system depends on what else is on the heap.
STORY = """
import os, torch
from powerlink.kernels.host_memory import freed_memory_kept

def held():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20

def use_and_free():
    torch.ones(2**25)  # 128 MiB, gone at once

use_and_free()
start = held()
try:
    with freed_memory_kept():
        use_and_free()
        kept = held() - start
        raise RuntimeError("whatever happens inside")
except RuntimeError:
    use_and_free()
print(kept, held() - start)
"""


@pytest.mark.skipif(host_memory._glibc() is None, reason="only glibc's allocator can be told to keep memory")
def test_freed_memory_stays_meanwhile_and_goes_back_to_the_system_afterwards():
    told = subprocess.run([sys.executable, "-c", STORY], capture_output=True, text=True, check=True).stdout
    kept, after = map(int, told.split())
    assert kept > 100
    assert after < 28


def test_elsewhere_it_does_nothing(monkeypatch):
    monkeypatch.setattr(host_memory, "_glibc", lambda: None)
    with freed_memory_kept():
        assert sum([1, 2]) == 3
