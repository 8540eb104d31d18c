"""Simulator, campaigns and policy compiler of weftline.

>>> import weftline
>>> outcome = weftline.run("scenario.toml", {"flows.0.count": 48}, seed=3)
>>> policy = weftline.compile("link 10gbps\\nroot = default\\n")

docs/python.md is the guide.
"""

from . import documents
from ._campaigns import Campaign, Progress, Status, campaign, results
from ._error import Error
from ._replays import Departures, replay
from ._simulate import run
from ._types import Diagnostic, Lane
from ._weftline import Policy, Table, compile
from .documents import Sim as Outcome

__all__ = [
    "Campaign",
    "Departures",
    "Diagnostic",
    "Error",
    "Lane",
    "Outcome",
    "Policy",
    "Progress",
    "Status",
    "Table",
    "campaign",
    "compile",
    "documents",
    "replay",
    "results",
    "run",
]
