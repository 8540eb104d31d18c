"""Campaigns: the store, its table, progress, and what interrupts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import weftline


def test_a_campaign_goes_on(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    half = weftline.campaign(grid, out, shard="1/2")
    assert (half.progress.runs, half.progress.made) == (6, 6)
    assert half.status == weftline.Status(runs=12, done=6, broken=0) and half.status.missing == 6
    told: list[weftline.Progress] = []
    whole = weftline.campaign(grid, out, threads=2, progress=told.append)
    assert (whole.progress.there, whole.progress.made) == (6, 6)
    assert told[-1] == whole.progress and [one.made for one in told] == sorted(one.made for one in told)
    assert whole.status.missing == 0


def test_the_table_has_parameters_and_figures(grid: Path, tmp_path: Path) -> None:
    table = weftline.campaign(grid, tmp_path / "out").table()
    assert len(table) == table.num_rows == 12
    assert table.column_names[:4] == ["flows.0.count", "host.stack.queue_assignment", "seed", "model"]
    columns = table.to_pydict()
    assert columns["flows.0.count"] == [1] * 6 + [4] * 6
    assert columns["host.stack.queue_assignment"] == (["dqa"] * 3 + ["hash"] * 3) * 2
    assert columns["seed"] == [1, 2, 3] * 4
    assert all(rate > 1e9 for rate in columns["throughput_bps"])
    with pytest.raises(weftline.Error, match="throughput_pbs") as caught:
        table.column("throughput_pbs")
    assert "throughput_bps" in caught.value.help


def test_a_result_is_that_of_a_run(grid: Path, scenario: Path, tmp_path: Path) -> None:
    table = weftline.campaign(grid, tmp_path / "out").table().to_pydict()
    at = table["host.stack.queue_assignment"].index("hash", 6)
    outcome = weftline.run(scenario, {"flows.0.count": 4}, seed=table["seed"][at])
    assert table["throughput_bps"][at] == outcome.throughput_bps


def test_grids_can_be_dictionaries_and_texts(scenario: Path, tmp_path: Path) -> None:
    axes = [{"key": "flows.0.count", "values": [1, 2]}]
    grid = {"scenario": str(scenario), "axes": axes}
    assert weftline.campaign(grid, tmp_path / "a").progress.made == 2
    text = f'scenario = "{scenario}"\n[[axes]]\nkey = "flows.0.count"\nvalues = [1, 2]\n'
    assert weftline.campaign(text, tmp_path / "a").progress.there == 2


def test_errors_have_a_place(grid: Path, tmp_path: Path) -> None:
    grid.write_text(grid.read_text().replace("queue_assignment", "queue_asignment"))
    with pytest.raises(weftline.Error, match="queue_assignment") as caught:
        weftline.campaign(grid, tmp_path / "out")
    assert (caught.value.file, caught.value.line) == (str(grid), 7)
    with pytest.raises(weftline.Error, match="shard"):
        weftline.campaign(grid, tmp_path / "out", shard="3/2")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(weftline.Error, match="not a campaign's folder"):
        weftline.campaign(grid, tmp_path / "other")
    with pytest.raises(weftline.Error, match="no results"):
        weftline.results(tmp_path / "none")


def test_an_exception_of_the_listener_ends_it(grid: Path, tmp_path: Path) -> None:
    def listener(progress: weftline.Progress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        weftline.campaign(grid, tmp_path / "out", progress=listener)
    assert weftline.campaign(grid, tmp_path / "out").status.missing == 0


def test_progress_can_be_a_line(grid: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    weftline.campaign(grid, tmp_path / "out", progress=True)
    assert "12 of 12 runs" in capfd.readouterr().err


def test_broken_files_are_told_and_made_again(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    weftline.campaign(grid, out)
    victim = next(path for path in out.rglob("*.json"))
    victim.write_text("{}")
    with pytest.warns(UserWarning, match="1 files are no results"):
        assert len(weftline.results(out)) == 11
    again = weftline.campaign(grid, out)
    assert (again.progress.made, again.progress.broken) == (1, 1)


def test_ctrl_c_keeps_the_store(grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    grid.write_text(grid.read_text().replace("seeds = 3", "seeds = 100000"))
    code = (
        "import weftline\n"
        "try:\n"
        f"    weftline.campaign({str(grid)!r}, {str(out)!r}, threads=2)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        while not any(out.rglob("*.json")):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None and process.stdout.readline() == "interrupted\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    kept = sum(1 for _ in out.rglob("*.json"))
    assert kept == len(weftline.results(out)) > 0
    assert not any(out.rglob("*.tmp"))
