"""How much is worked on at once follows from the device and from what is granted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerlink import memory
from powerlink.memory import Budget, Room, ran_out_of_memory

CPU, GPU = torch.device("cpu"), torch.device("cuda")
GIB = 2**30


def test_a_budget_follows_from_what_is_granted():
    assert Budget.of(CPU) == Budget()
    assert Budget.of(CPU, 100 * memory.BYTES_PER_EDGE).edges == 100
    assert Budget.of(CPU, 100 * GIB).edges > Budget().edges  # a batch may be as large as it is allowed to
    assert Budget.of(CPU, 1) == Budget(1, memory.MOST_QUERIES, Room(1, 1))


def test_a_piece_of_the_proof_may_take_half_of_it_and_no_more_than_keeps_the_device_busy():
    assert Room.of(CPU) == Room.of(CPU, 2**50) == Room()
    assert Room.of(CPU, 12_000) == Budget.of(CPU, 12_000).room == Room(10, 250)


def test_on_a_gpu_half_of_its_memory_is_granted_where_nothing_is_said(monkeypatch):
    class Properties:
        total_memory = 64 * GIB

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert Budget.of(GPU) == Budget.of(GPU, 32 * GIB)
    assert Budget.of(GPU).edges == 32 * GIB // memory.BYTES_PER_EDGE
    assert Budget.of(GPU).queries == memory.MOST_QUERIES_ON_A_GPU
    assert Room.of(GPU).edges == 16 * GIB // memory.BYTES_PER_COPIED_EDGE
    assert Room.of(GPU).logits == memory.LOGITS_PER_PIECE_ON_A_GPU
    assert Room.of(GPU, 1) == Room(1, 1)


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 20), st.integers(1, 30), st.integers(0, 7))
def test_scenarios_are_cut_into_runs_that_fit_or_stand_alone(loads, edges, logits, logits_each):
    runs = Room(edges, logits).cut(loads, logits_each)
    assert [scenario for first, last in runs for scenario in range(first, last)] == list(range(len(loads)))
    for first, last in runs:
        assert last > first
        assert last == first + 1 or (sum(loads[first:last]) <= edges and (last - first) * logits_each <= logits)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            True,
        ),
        (RuntimeError("shapes do not match"), False),
        (ValueError("cannot allocate memory"), False),
    ],
)
def test_a_full_memory_is_told_from_other_faults(error, full):
    assert ran_out_of_memory(error) == full
