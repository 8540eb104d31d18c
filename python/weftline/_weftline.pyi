"""The native part of the package; `weftline` has what is meant to be used."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, final

from ._types import Diagnostic, Lane

@final
class Policy:
    """A compiled policy."""

    @property
    def name(self) -> str:
        """The file, or `policy` for a text."""
    @property
    def text(self) -> str: ...
    @property
    def link_bps(self) -> int | None:
        """The link's rate in bits per second; None if the policy states none."""
    @property
    def classes(self) -> list[str]:
        """The names of the classes, by number."""
    @property
    def lanes(self) -> list[Lane]: ...
    @property
    def program(self) -> str:
        """The program in words, as `weft policy show` prints it."""
    @property
    def warnings(self) -> list[Diagnostic]: ...
    def to_svg(self) -> str:
        """Draw the tree as SVG."""
    def _repr_svg_(self) -> str: ...

@final
class Table:
    """A table of columns that never changes. pyarrow, polars, pandas and DuckDB take it as it is."""

    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def column(self, name: str) -> list[Any]:
        """Return the values of a column; None where one is missing."""
    def to_pydict(self) -> dict[str, list[Any]]: ...
    def integers(self, name: str) -> bytes:
        """Return a column of whole numbers as 64-bit numbers."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

def compile(policy: str | PathLike[str], link: str | int | None = None) -> Policy:
    """Compile a policy: a path, or a text with at least one line break. `link` is a rate in place of the policy's.

    Raises `Error` with the place of the first error and all diagnostics.
    """

def run(scenario: str | PathLike[str] | dict[str, Any], sets: Mapping[str, Any], seed: int) -> tuple[str, list[str]]: ...
def campaign(
    grid: str | PathLike[str] | dict[str, Any],
    out: str | PathLike[str],
    threads: int | None,
    shard: str,
    progress: Callable[[int, int, int, int], object] | None,
) -> tuple[int, int, int, int]: ...
def status(grid: str | PathLike[str] | dict[str, Any], out: str | PathLike[str]) -> tuple[int, int, int]: ...
def results(out: str | PathLike[str]) -> tuple[Table, int, int]: ...
def replay(
    policy: Policy, arrivals: dict[str, Any], link: str | int | None, port: str, flows_per_class: int
) -> tuple[Table, dict[str, list[int]], int, int, int]: ...
