"""Campaigns: a scenario over a grid of parameters and seeds, and a store of the results."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from . import _weftline
from ._weftline import Table

Grid = str | PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Progress:
    """The numbers of a campaign's runs, while it goes on."""

    runs: int
    """All runs of the grid or the shard."""
    there: int
    """Results that were there."""
    made: int
    """Results that were made."""
    broken: int
    """Files that were no results, and were made again."""


@dataclass(frozen=True)
class Status:
    """The numbers of a grid's runs and of their results in a store."""

    runs: int
    done: int
    broken: int
    """Files that are torn or another's; the campaign makes them again."""

    @property
    def missing(self) -> int:
        """Runs without a file."""
        return self.runs - self.done - self.broken


@dataclass(frozen=True)
class Campaign:
    """A campaign whose runs are made."""

    grid: Grid
    out: str | PathLike[str]
    progress: Progress
    """The numbers of the runs that were there and that were made."""

    @property
    def status(self) -> Status:
        """The results that the store has now."""
        return Status(*_weftline.status(_plain(self.grid), self.out))

    def table(self) -> Table:
        """All results of the store, a row per run: parameters, seed, model and figures (docs/campaigns.md)."""
        return results(self.out)


def campaign(
    grid: Grid,
    out: str | PathLike[str],
    *,
    threads: int | None = None,
    shard: str = "1/1",
    progress: Callable[[Progress], object] | bool | None = None,
) -> Campaign:
    """Make the results of a grid that are missing in the folder `out`, on all processors or on as many `threads`.

    `grid` is a path, a text with at least one line break, or a dictionary with the keys of a grid file (docs/campaigns.md). `shard` is a
    part of the runs, such as `2/8`. `progress` is called with the numbers as they grow, or True for a line on standard error; an
    exception of it ends the campaign. Ctrl-C raises KeyboardInterrupt: what is finished is kept, and the same call goes on.
    """
    told = _Line() if progress is True else progress or None
    listener = None if told is None else lambda *numbers: told(Progress(*numbers))
    try:
        numbers = _weftline.campaign(_plain(grid), out, threads, shard, listener)
    finally:
        if isinstance(told, _Line):
            told.end()
    return Campaign(grid, out, Progress(*numbers))


def results(out: str | PathLike[str]) -> Table:
    """Return all results of a store as a table, a row per run, ordered by parameters and seed."""
    table, other_models, broken = _weftline.results(out)
    if other_models:
        warnings.warn(f"{other_models} results of other versions of the model are left out", stacklevel=2)
    if broken:
        warnings.warn(f"{broken} files are no results; the campaign makes them again", stacklevel=2)
    return table


def _plain(grid: Grid) -> Any:
    return dict(grid) if isinstance(grid, Mapping) else grid


class _Line:
    """A line on standard error that is rewritten."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._told = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        missing = progress.runs - progress.there
        if now - self._told < 0.2 and progress.made < missing:
            return
        self._told = now
        left = ""
        if progress.made:
            seconds = (now - self._begin) / progress.made * (missing - progress.made)
            left = f", {seconds:.0f} s left"
        sys.stderr.write(f"\r{progress.made} of {missing} runs{left}\x1b[K")
        sys.stderr.flush()

    def end(self) -> None:
        sys.stderr.write("\n")
