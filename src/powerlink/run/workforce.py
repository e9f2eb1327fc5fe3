"""Who explains batches: this process, processes of this machine, or a Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from powerlink.errors import SettingsError
from powerlink.settings import check_settings, setting

if TYPE_CHECKING:  # its settings are flags of the command line, which does not wait for torch to tell them
    import torch

    from powerlink.run.executor import Executor

Kind = Literal["serial", "processes", "ray"]


@dataclass(frozen=True, kw_only=True)
class Workforce:
    """Where batches are explained, and by how many at once; answers do not depend on it."""

    executor: Kind = setting(
        "serial",
        "where batches are explained: one after the other here, in processes of this machine, or on a Ray cluster",
        among=get_args(Kind),
    )
    workers: int | None = setting(None, "how many explain at once", least=1)
    gpus_per_worker: float | None = setting(None, "GPUs for each worker; with 0.5, two share one", least=0)
    ray: str | None = setting(None, "address of a Ray cluster: HOST:PORT, ray://HOST:PORT, or auto")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.executor == "serial" and (self.workers or self.gpus_per_worker):
            raise SettingsError("a serial run has no workers: say --executor processes, or --executor ray")
        if self.ray and self.executor != "ray":
            raise SettingsError(f"--ray says where a Ray cluster is, but --executor is {self.executor}")

    @contextmanager
    def hire(self, device: torch.device | str = "cpu") -> Iterator[Executor]:
        """Return an executor for models on a device; its workers are let go at the end of the context."""
        from powerlink.run.executor import Serial
        from powerlink.run.on_ray import ray_actors
        from powerlink.run.processes import processes

        if self.executor == "serial":
            yield Serial()
        elif self.executor == "processes":
            with processes(self.workers, device=device, gpus_per_worker=self.gpus_per_worker) as pool:
                yield pool
        else:
            # Ray tells of its workers' deaths on standard output, where answers belong.
            with (
                redirect_stdout(sys.stderr),
                ray_actors(self.workers, address=self.ray, gpus_per_worker=self.gpus_per_worker) as pool,
            ):
                yield pool
