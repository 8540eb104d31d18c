"""Scenarios: what may be given, what comes back, and what is refused."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import numpy
import pytest
from conftest import ROOT, SCENARIO

import weftline


def test_path_text_and_dictionary_are_the_same(scenario: Path) -> None:
    outcomes = [weftline.run(given, seed=5) for given in (scenario, str(scenario), SCENARIO, tomllib.loads(SCENARIO))]
    for outcome in outcomes:
        assert outcome.flows == outcomes[0].flows and outcome.counters == outcomes[0].counters
    assert outcomes[0].schema == "weft-sim/1" and outcomes[0].seed == 5
    assert all(latency.samples > 0 for latency in outcomes[0].latency_s.values())


def test_a_seed_decides(scenario: Path) -> None:
    first, again, other = (weftline.run(scenario, seed=seed) for seed in (1, 1, 2))
    assert first.flows == again.flows
    assert first.events != other.events or first.flows != other.flows


def test_values_are_set_by_their_keys(scenario: Path) -> None:
    sets = {"flows.0.count": numpy.int64(2), "host.stack.qdisc": {"tbf": {"rate": "1gbps", "burst": "64KB"}}}
    outcome = weftline.run(scenario, sets, duration="10ms", fairness_intervals=["1ms"])
    assert len(outcome.flows) == 2 and list(outcome.nfm) == ["1ms"]
    # A bucket for each of the two queues, and its burst.
    assert outcome.throughput_bps < 2.2e9 < weftline.run(scenario, duration="10ms").throughput_bps
    assert abs(outcome.sim_s - 0.01) < 1e-9


def test_files_are_found_beside_the_scenario() -> None:
    outcome = weftline.run(ROOT / "experiments/scenarios/titan-12-flows.toml", warm_up="0s", duration="2ms")
    assert len(outcome.flows) == 12


@pytest.mark.parametrize(
    ("text", "sets", "place", "words"),
    [
        ('duration = "1x"\n[[flows]]\n', {}, ("scenario", 1, 12), "duration"),
        ("[[flows]]\nconut = 3\n", {}, ("scenario", 2, 1), "count"),
        ("[[flows\n", {}, ("scenario", 1, None), "TOML"),
        (SCENARIO, {"flows.1.count": 3}, (None, None, None), "flows.1"),
        (SCENARIO, {"host.stack.qdisc": "fq_kodel"}, ("scenario with settings", None, None), "fq_codel"),
        ('costs = "no.toml"\n[[flows]]\n', {}, ("scenario", 1, None), "no.toml"),
    ],
)
def test_errors_have_a_place(text: str, sets: dict[str, object], place: tuple[object, ...], words: str) -> None:
    with pytest.raises(weftline.Error) as caught:
        weftline.run(text, sets)
    error = caught.value
    assert error.file == place[0]
    assert place[1] is None or error.line == place[1]
    assert place[2] is None or error.column == place[2]
    assert words in str(error), error
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_errors_of_a_hosts_policy_have_the_policys_place(tmp_path: Path) -> None:
    (tmp_path / "p.weft").write_text("root = nothing\n")
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        'warm_up = "0s"\nduration = "1ms"\n[host.nic]\nscheduler = "policy"\n'
        '[host.stack]\npolicy_file = "p.weft"\n[[flows]]\n'
    )
    with pytest.raises(weftline.Error) as caught:
        weftline.run(scenario)
    assert caught.value.file == str(tmp_path / "p.weft") and caught.value.line == 1
    assert caught.value.diagnostics


@pytest.mark.parametrize("wrong", [None, 3, ["x"], {"flows": [None]}, {1: 2}, {"flows": [{"count": 10**30}]}])
def test_other_types_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        weftline.run(wrong)  # type: ignore[arg-type]


def test_values_nested_without_end_are_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested"):
        weftline.run({"flows": loop})


def test_a_missing_file_says_how_a_text_looks(tmp_path: Path) -> None:
    with pytest.raises(weftline.Error, match="cannot read the scenario .*none.toml") as caught:
        weftline.run(tmp_path / "none.toml")
    assert "line break" in caught.value.help


def test_threads_run_at_the_same_time(scenario: Path) -> None:
    done: list[int] = []
    threads = [threading.Thread(target=lambda seed=seed: done.append(weftline.run(scenario, seed=seed).seed)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [1, 2, 3, 4]


def _bytes(seed: int) -> int:
    return sum(flow.bytes for flow in weftline.run(SCENARIO, seed=seed).flows)


def test_a_fork_works_after_a_run() -> None:
    here = [_bytes(seed) for seed in (1, 2)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_bytes, [1, 2]) == here


def test_ctrl_c_ends_a_run(scenario: Path) -> None:
    # A run of simulated hours, which nobody waits for.
    code = (
        "import weftline\n"
        "try:\n"
        "    print('begin', flush=True)\n"
        f"    weftline.run({str(scenario)!r}, duration='3600s', sample_interval='1s')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None and process.stdout.readline() == "begin\n"
        # Most likely it is in the run by then; if not, the exception is the same.
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
