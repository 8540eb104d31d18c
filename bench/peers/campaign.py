"""Runs campaigns and the same simulations without a store in turns, and writes one document. `scripts/bench-peers campaign` builds both
and calls this."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import merge
from compare import RUNS_MIN, host_facts, number, say, table

# Combinations of the grid; the rest is seeds.
GRID = 'scenario = "scenario.toml"\nseeds = {seeds}\n[[axes]]\nkey = "host.nic.transmit_queues"\nvalues = [2, 3, 4, 5]\n'
COMBINATIONS = 4
SCENARIO = 'warm_up = "1ms"\nduration = "{microseconds}us"\n[[flows]]\ncount = 8\n[[probes]]\n'
# Where the search for the duration begins, and where it ends.
MICROSECONDS, MICROSECONDS_MAX = 50_000, 60_000_000
SIDES = ("plain", "kept", "weft")


def write_grid(folder, microseconds, runs):
    """Writes a grid of at least so many runs, and returns their number."""
    seeds = -(-runs // COMBINATIONS)
    (folder / "scenario.toml").write_text(SCENARIO.format(microseconds=microseconds), encoding="utf-8")
    (folder / "grid.toml").write_text(GRID.format(seeds=seeds), encoding="utf-8")
    return seeds * COMBINATIONS


def command(args, side, folder, shard, store):
    """The process of a worker: the same program without and with a store, and weft itself."""
    grid = str(folder / "grid.toml")
    return {
        "plain": [str(args.plain), grid, shard],
        "kept": [str(args.plain), grid, shard, store],
        "weft": [str(args.weft), "campaign", "run", grid, "--out", store, "--shard", shard, "--threads", "1"],
    }[side]


def measured(args, side, folder, workers):
    """Seconds from the start of all workers to the end of the last, and the processor's time of all."""
    with tempfile.TemporaryDirectory(dir=folder) as store:
        begin, before = time.monotonic(), os.times()
        running = [subprocess.Popen(command(args, side, folder, f"{index + 1}/{workers}", store), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for index in range(workers)]
        said = [process.communicate()[1].decode(errors="replace") for process in running]
        seconds, after = time.monotonic() - begin, os.times()
    for process, text in zip(running, said):
        if process.returncode:
            raise merge.BadOutput(f"{side}: exit status {process.returncode}: {text.strip()}")
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


def calibrate(args, folder):
    """The duration of a scenario whose run takes as long of a processor as is asked for, whatever else runs."""
    microseconds, runs = MICROSECONDS, 2 * COMBINATIONS
    for _ in range(4):
        write_grid(folder, microseconds, runs)
        seconds = max(measured(args, "plain", folder, 1)[1], 0.001) / runs
        microseconds = min(max(int(microseconds * args.run_seconds / seconds), 1_000), MICROSECONDS_MAX)
    return microseconds


def entries(workers, runs, seconds, alone):
    """The cases of a number of workers, each side beside the plain runs of the same repeat."""
    plain = [wall for wall, _ in seconds["plain"]]
    for side in SIDES[1:]:
        mine = [wall for wall, _ in seconds[side]]
        ratios = [a / b for a, b in zip(plain, mine, strict=True)]
        cpu = [b[1] / a[1] for a, b in zip(seconds["plain"], seconds[side], strict=True)]
        entry = {
            "case": f"campaign-{side}-{workers}-workers", "peer": "the same runs without a store", "unit": "runs",
            "ours_pps": runs / median(mine), "peer_pps": runs / median(plain), "ratio_median": median(ratios), "ratio_runs": ratios,
            "overhead_median": 1 / median(ratios) - 1, "cpu_overhead_median": median(cpu) - 1, "workers": workers,
            "peer_run_s": median(plain) * workers / runs,
        }
        alone.setdefault(side, entry)
        entry["speedup"] = entry["ours_pps"] / alone[side]["ours_pps"]
        entry["peer_speedup"] = entry["peer_pps"] / alone[side]["peer_pps"]
        yield entry


def arguments(argv):
    parser = argparse.ArgumentParser(prog="scripts/bench-peers campaign", description=__doc__.split(".")[0])
    parser.add_argument("--plain", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--weft", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=RUNS_MIN, help=f"repeats, at least {RUNS_MIN} (the default)")
    parser.add_argument("--run-seconds", type=float, default=0.1, help="length of a simulation (default: 0.1)")
    parser.add_argument("--per-worker", type=int, default=60, help="simulations of a worker (default: 60)")
    parser.add_argument("--workers", type=int, nargs="+", default=sorted({1, len(os.sched_getaffinity(0))}),
                        help="numbers of workers (default: one, and as many as there are processors)")
    parser.add_argument("--folder", type=Path, help="where stores are made and removed (default: the folder for temporary files)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the document here")
    args = parser.parse_args(argv)
    if args.runs < RUNS_MIN:
        parser.error(f"--runs must be at least {RUNS_MIN}")
    if args.per_worker < 1 or min(args.workers) < 1:
        parser.error("there is at least one worker, with one simulation")
    return args


def main(argv):
    args = arguments(argv)
    cases, loads, alone = [], [], {}
    try:
        with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=args.folder) as folder:
            folder = Path(folder)
            microseconds = calibrate(args, folder)
            for workers in args.workers:
                runs = write_grid(folder, microseconds, args.per_worker * workers)
                seconds = {side: [] for side in SIDES}
                for repeat in range(args.runs):
                    loads.append({"load": os.getloadavg()[0]})
                    for side in SIDES if repeat % 2 == 0 else SIDES[::-1]:
                        seconds[side].append(measured(args, side, folder, workers))
                cases += entries(workers, runs, seconds, alone)
                say(f"{workers} workers: {cases[-1]['overhead_median']:+.1%}")
    except (merge.BadOutput, OSError, subprocess.SubprocessError) as error:
        say(f"error: {error}")
        return 1
    table(["case", "a run", "runs/s", "plain runs/s", "longer", "(least to most)", "processor", "speedup", "plain speedup"], [[
        e["case"], f"{e['peer_run_s']:.3f} s", number(e["ours_pps"]), number(e["peer_pps"]), f"{e['overhead_median']:+.1%}",
        f"({1 / max(e['ratio_runs']) - 1:+.1%} to {1 / min(e['ratio_runs']) - 1:+.1%})", f"{e['cpu_overhead_median']:+.1%}",
        f"{e['speedup']:.2f}", f"{e['peer_speedup']:.2f}"] for e in cases])
    if args.json:
        document = {"schema": "weft-bench/1", "host": host_facts(loads), "cases": cases}
        args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
