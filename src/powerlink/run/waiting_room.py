"""Where results wait that came before their turn: in memory, or as files that a kill does not reach."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from powerlink.atomic_file import write_atomically
from powerlink.errors import DataError
from powerlink.explanation import MadeBy, Query
from powerlink.pipeline import Answer
from powerlink.report.schema import from_json, to_json
from powerlink.run.job import JobResult
from powerlink.stage_clock import Elapsed, Seconds

_NAME = "[0-9a-f]" * 24 + ".json"


def key_of(made_by: Mapping[str, MadeBy], batch: Tensor) -> str:
    """Name a batch (Q, 3) by its queries and by all that decides what is said of them."""
    origin = {way: {**asdict(by), "versions": None} for way, by in made_by.items()}
    digest = hashlib.sha256(json.dumps(origin, sort_keys=True, default=str).encode())
    digest.update(batch.numpy(force=True).tobytes())
    return digest.hexdigest()[:24]


class WaitingRoom:
    """Results by the place of their parcel; with a folder, those that an earlier run left there are found again."""

    def __init__(self, folder: Path | None, keys: Sequence[str]) -> None:
        self._folder = folder
        self._here: dict[int, JobResult] = {}
        self._files = [] if folder is None else [folder / f"{key}.json" for key in keys]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Once all had their turn, what is still there is an earlier run's, of other batches."""
        if self._folder is None or kind is not None:
            return
        with suppress(OSError):
            for path in self._folder.glob(_NAME + "*"):
                path.unlink()
            self._folder.rmdir()

    def __contains__(self, place: int) -> bool:
        return place in self._here if self._folder is None else self._files[place].is_file()

    def keep(self, place: int, result: JobResult) -> None:
        """Let a result wait; with a folder, it is on the disk when this returns."""
        if self._folder is None:
            self._here[place] = result
        else:
            write_atomically(self._files[place], json.dumps(_as_plain(result)).encode())

    def take(self, place: int) -> JobResult:
        """Return a result whose turn has come."""
        if self._folder is None:
            return self._here[place]
        path = self._files[place]
        try:
            return _from_plain(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError) as error:
            raise DataError(f"{path} is damaged ({error}): delete it, and its queries are explained again") from None

    def leave(self, place: int) -> None:
        """Forget a result that is safe elsewhere."""
        self._here.pop(place, None)
        if self._folder is not None:
            self._files[place].unlink(missing_ok=True)


def _as_plain(result: JobResult) -> dict[str, Any]:
    return {
        "ways": {
            way: {"explanations": list(map(to_json, answer.explanations)), "seconds": _spent(answer.seconds)}
            for way, answer in result.ways.items()
        },
        "seconds": _spent(result.seconds),
        "measured": [[asdict(query), dict(found)] for query, found in result.measured.items()],
    }


def _from_plain(plain: Mapping[str, Any]) -> JobResult:
    ways = {
        way: Answer(list(map(from_json, answer["explanations"])), _seconds(answer["seconds"]))
        for way, answer in plain["ways"].items()
    }
    measured = {Query(**query): found for query, found in plain["measured"]}
    return JobResult(ways, _seconds(plain["seconds"]), measured)


def _spent(seconds: Seconds) -> dict[str, list[float]]:
    return {stage: [took.clock, took.cpu] for stage, took in seconds.items()}


def _seconds(plain: Mapping[str, Sequence[float]]) -> Seconds:
    return {stage: Elapsed(*took) for stage, took in plain.items()}
