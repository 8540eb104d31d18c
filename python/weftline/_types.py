"""Values that the native part makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnostic:
    """A finding of the policy compiler, with its place."""

    severity: str
    """error, warning or note."""
    code: str
    """The stable code, such as E0002."""
    message: str
    file: str
    line: int
    """From 1."""
    column: int
    """In characters, from 1."""
    help: str
    """The remedy."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}[{self.code}]: {self.message}"


@dataclass(frozen=True)
class Lane:
    """A class of a policy together with the limits that its packets pass."""

    number: int
    class_name: str
    leaf: str
    """The leaf of the tree where its packets wait."""
    limits: tuple[str, ...]
    packets_max: int
    """The most packets that wait."""
