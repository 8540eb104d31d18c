"""Calls each part of the package once, without any other package. Run by module.rs."""

import sys
import tempfile
import threading
import time
from pathlib import Path

import weftline

SCENARIO = """
warm_up = "0s"
duration = "5ms"
[[flows]]
count = 4
"""

# Without switches by time, the second thread goes on only when the first one gives the interpreter's lock away, as a run does.
counted = 0
over = threading.Event()


def count() -> None:
    global counted
    while not over.is_set():
        counted += 1
        time.sleep(0.0001)


interval = sys.getswitchinterval()
sys.setswitchinterval(3600)
counter = threading.Thread(target=count, daemon=True)
counter.start()
before = counted
for _ in range(1000):
    weftline.run(SCENARIO)
    if counted > before:
        break
assert counted > before, "the other thread stood still"
over.set()
counter.join()
sys.setswitchinterval(interval)

outcome = weftline.run(SCENARIO, {"flows.0.count": 2}, seed=7, duration="20ms")
assert (outcome.seed, len(outcome.flows)) == (7, 2), outcome
assert abs(outcome.sim_s - 0.02) < 1e-9 and outcome.throughput_bps > 1e9
assert weftline.run({"warm_up": "0s", "duration": "1ms", "flows": [{}]}).scenario == "scenario"

try:
    weftline.run(SCENARIO, {"host.nic.transmit_queus": 4})
    raise SystemExit("an unknown key was accepted")
except weftline.Error as error:
    assert (error.file, error.line) == ("scenario with settings", error.line) and error.line, error
    assert "transmit_queues" in error.help and "transmit_queus" in error.message, error

try:
    weftline.compile("link 10gbps\nroot = priorty { default }\n")
    raise SystemExit("a wrong policy was accepted")
except weftline.Error as error:
    assert (error.file, error.line, error.column) == ("policy", 2, 8), error
    assert error.diagnostics and "priority" in error.help, error

policy = weftline.compile("link 1gbps\nclass web = tcp port 80\nroot = priority { web, default }\n")
assert {"web", "default"} <= set(policy.classes) and policy.link_bps == 10**9, policy.classes
assert {lane.class_name for lane in policy.lanes} >= {"web", "default"}
assert "strict priority" in policy.program and policy.to_svg().startswith("<svg")

# 976 bytes and 24 around them: 8 us at 1 Gb/s. The link is free at once, so all but the first packet are chosen by class.
departures = weftline.replay(
    policy, {"time_ns": [0, 10, 20], "bytes": [976] * 3, "class": ["default", "default", "web"]}
)
assert list(departures.order) == [0, 2, 1], list(departures.order)
assert list(departures.end_ns) == [8000, 16000, 24000], list(departures.end_ns)
assert [departures.classes[number] for number in departures.class_] == ["default", "web", "default"]
try:
    weftline.replay(policy, {"time_ns": [0.5], "bytes": [1]})
    raise SystemExit("a fraction of a nanosecond was accepted")
except weftline.Error as error:
    assert "time_ns" in error.message, error

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "scenario.toml").write_text(SCENARIO)
    grid = {"scenario": f"{folder}/scenario.toml", "seeds": 2, "axes": [{"key": "flows.0.count", "values": [1, 2]}]}
    told: list[weftline.Progress] = []
    campaign = weftline.campaign(grid, f"{folder}/out", threads=2, progress=told.append)
    assert (campaign.progress.made, campaign.status.missing) == (4, 0), campaign
    assert told[-1] == campaign.progress
    table = campaign.table()
    assert table.column("flows.0.count") == [1, 1, 2, 2] and table.column("seed") == [1, 2, 1, 2]
    assert all(rate > 1e9 for rate in table.column("throughput_bps")), table.to_pydict()
    assert weftline.campaign(grid, f"{folder}/out").progress.there == 4

print("ok")
