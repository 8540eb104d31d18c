"""What the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCENARIO = """
warm_up = "0s"
duration = "5ms"
[[flows]]
count = 4
[[probes]]
interval = "1ms"
"""

POLICY = "link 1gbps\nclass web = tcp port 80\nroot = priority { web, default }\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def grid(tmp_path: Path, scenario: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(
        'scenario = "scenario.toml"\nseeds = 3\n'
        '[[axes]]\nkey = "flows.0.count"\nvalues = [1, 4]\n'
        '[[axes]]\nkey = "host.stack.queue_assignment"\nvalues = ["hash", "dqa"]\n'
    )
    return path
