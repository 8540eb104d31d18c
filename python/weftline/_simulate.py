"""A scenario in the simulator."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

from . import _weftline
from .documents import Sim, build


def run(
    scenario: str | PathLike[str] | Mapping[str, Any],
    sets: Mapping[str, Any] | None = None,
    /,
    *,
    seed: int = 1,
    **more: Any,
) -> Sim:
    """Simulate a scenario and return its outcome, the document of `weft sim`.

    `scenario` is a path, a text with at least one line break, or a dictionary with the keys of a scenario file; files that it names are
    found from its folder, or from the current one. `sets` has values by the keys of `weft sim --set`, such as
    `{"host.stack.qdisc": "fq_codel"}`; those of the head can also be arguments, such as `duration="20ms"`.

    Warnings of the hosts' policies are given by `warnings`. Raises `Error` for what is wrong, with its place. Other threads go on
    meanwhile, and Ctrl-C raises KeyboardInterrupt; the run itself then ends unseen.
    """
    given = dict(scenario) if isinstance(scenario, Mapping) else scenario
    text, told = _weftline.run(given, {**(sets or {}), **more}, seed)
    for line in told:
        warnings.warn(line, stacklevel=2)
    return build(Sim, json.loads(text))
