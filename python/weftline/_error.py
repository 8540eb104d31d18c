"""The exception of the package."""

from __future__ import annotations

from collections.abc import Iterable

from ._types import Diagnostic


class Error(Exception):
    """What was given is wrong, or a file cannot be used. It has the place of the error where there is one."""

    message: str
    """The error, in one line."""
    file: str | None
    """The file; for a text, what it is, such as `policy`."""
    line: int | None
    """The line, from 1."""
    column: int | None
    """The column in characters, from 1."""
    help: str
    """The remedy, in one line; may be empty."""
    diagnostics: tuple[Diagnostic, ...]
    """All findings of the compiler, if a policy is refused."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        help: str = "",
        diagnostics: Iterable[Diagnostic] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.help = help
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: error: " if self.file is not None else ""
        more = sum(found.severity == "error" for found in self.diagnostics) - 1
        others = f" (and {more} more)" if more > 0 else ""
        remedy = f"\n  help: {self.help}" if self.help else ""
        return place + self.message + others + remedy
