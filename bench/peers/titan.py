"""Makes runs of Titan's four tables with the simulator of another commit and with this one in turns, and writes one document.
`scripts/bench-peers titan --base COMMIT` builds both and calls this."""

import argparse
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from statistics import median

import merge
from compare import RUNS_MIN, host_facts, number, say, table

TABLES = ("titan-tr-table3", "titan-tr-table4", "titan-tr-table5", "titan-atc17-table3")
# Seeds of the tables as they are printed.
SEEDS_WHOLE = 200
SIDES = ("base", "ours")


def value(of):
    """A value of TOML as `KEY=VALUE` takes it."""
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {value(entry)}" for key, entry in of.items()) + " }"
    if isinstance(of, list):
        return "[" + ", ".join(value(entry) for entry in of) + "]"
    return json.dumps(of)


def settings(parameters, preset, row):
    """What a row of a table changes in the scenario, in order (`Parameters::over` of weft-experiments)."""
    changes = list(parameters["presets"][preset].items())

    def configure(name):
        given = parameters["configurations"][name]
        for other in given.get("also", []):
            configure(other)
        changes.extend((key, entry) for key, entry in given.items() if key != "also")

    configure(row)
    changes.extend(parameters.get("in_preset", {}).get(preset, {}).get(row, {}).items())
    return [f"{key}={value(entry)}" for key, entry in changes]


def cells(experiments):
    """The simulations of all tables, each once: a name and its settings."""
    found = {}
    for name in TABLES:
        experiment = tomllib.loads((experiments / f"{name}.toml").read_text(encoding="utf-8"))
        parameters = tomllib.loads((experiments / experiment["parameters"]).read_text(encoding="utf-8"))
        scenario = experiments / parameters["scenario"]
        for flows in experiment["flows"]:
            for row in experiment["rows"]:
                changes = [*settings(parameters, experiment["preset"], row), f"{experiment['flows_key']}={flows}"]
                found.setdefault((str(scenario), *changes), f"{name} {row} {flows}")
    return [(name, scenario, changes) for (scenario, *changes), name in found.items()]


def measured(program, cell, first, seeds):
    """The user time of the runs of a cell in a process of its own, their events, and the digest of their outcomes."""
    name, scenario, changes = cell
    command = [str(program), scenario, str(first), str(seeds), *changes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise merge.BadOutput(f"{name}: {program}: exit status {process.returncode}")
    try:
        said = json.loads(text)
        return usage.ru_utime, int(said["events"]), str(said["digest"])
    except (ValueError, KeyError, TypeError) as error:
        raise merge.BadOutput(f"{name}: {program} prints something else than was agreed: {text.strip()}") from error


def repeat(args, sample, number_of_repeat):
    """User seconds by side and cell, and the events. Each cell is run by both sides, one right after the other."""
    seconds, events = {side: [] for side in SIDES}, 0
    first = args.seed + number_of_repeat * args.seeds
    for index, cell in enumerate(sample):
        said = {}
        for side in SIDES if (number_of_repeat + index) % 2 == 0 else SIDES[::-1]:
            user, made, digest = measured(getattr(args, side), cell, first, args.seeds)
            seconds[side].append(user)
            said[side] = (made, digest)
        if said["base"] != said["ours"]:
            raise merge.BadOutput(f"{cell[0]} with the seeds {first} to {first + args.seeds - 1}: the outcomes differ")
        events += said["ours"][0]
    return seconds, events


def arguments(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/bench-peers titan --base COMMIT",
        description=__doc__.split(".")[0] + ". Compares user time, on one processor, and refuses unequal outcomes.",
        epilog="example: scripts/bench-peers titan --base HEAD~3 --runs 5 --json speed.json",
    )
    for side in SIDES:
        parser.add_argument(f"--{side}-program", dest=side, type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--experiments", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--named", metavar="COMMIT", default="base", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=RUNS_MIN, help=f"repeats, at least {RUNS_MIN} (the default)")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each cell in a repeat (default: 1); each repeat has others")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth of the tables' cells (default: all)")
    parser.add_argument("--processor", type=int, help="the processor that both sides run on (default: the last)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the document here")
    args = parser.parse_args(argv)
    if args.runs < RUNS_MIN:
        parser.error(f"--runs must be at least {RUNS_MIN}")
    if min(args.seeds, args.every) < 1:
        parser.error("--seeds and --every are at least 1")
    return args


def entry(args, name, made, seconds, runs_whole):
    """One case: runs per second of user time. `seconds` has the sums of both sides, repeat by repeat."""
    # The clock of a process may not have moved.
    base, ours = ([made / max(user, 1e-6) for user in seconds[side]] for side in SIDES)
    ratios = [a / b for a, b in zip(ours, base, strict=True)]
    return {
        "case": name, "peer": args.named, "unit": "runs", "ours_pps": median(ours), "peer_pps": median(base),
        "ratio_median": median(ratios), "ratio_runs": ratios, "ours_run_s": 1 / median(ours), "peer_run_s": 1 / median(base),
        "ours_whole_s": runs_whole / median(ours), "peer_whole_s": runs_whole / median(base),
    }


def main(argv):
    args = arguments(argv)
    cores = sorted(os.sched_getaffinity(0))
    repeats, loads = [], []
    try:
        everything = cells(args.experiments)
        sample = everything[::args.every]
        os.sched_setaffinity(0, {cores[-1] if args.processor is None else args.processor})
        for index in range(args.runs):
            loads.append({"load": os.getloadavg()[0]})
            repeats.append(repeat(args, sample, index))
            sums = {side: sum(repeats[-1][0][side]) for side in SIDES}
            say(f"repeat {index + 1} of {args.runs}: {sums['base']:.2f} s, {sums['ours']:.2f} s")
    except (merge.BadOutput, OSError, KeyError, tomllib.TOMLDecodeError) as error:
        say(f"error: {error}")
        return 1
    finally:
        os.sched_setaffinity(0, cores)
    groups = {"titan-tables": range(len(sample))}
    for index, (name, _, _) in enumerate(sample):
        groups.setdefault(f"titan-{name.split()[-1]}-flows", []).append(index)
    share = len(everything) / len(sample)
    entries = []
    for name, indices in groups.items():
        seconds = {side: [sum(one[side][index] for index in indices) for one, _ in repeats] for side in SIDES}
        made = len(indices) * args.seeds
        entries.append(entry(args, name, made, seconds, len(indices) * share * SEEDS_WHOLE))
    entries[0]["events_per_run"] = sum(events for _, events in repeats) / (len(sample) * args.seeds * len(repeats))
    table(["case", "peer", "ms a run", "of the peer", "ratio", "(least to most)", "200 seeds", "of the peer"], [[
        e["case"], e["peer"], f"{e['ours_run_s'] * 1e3:.1f}", f"{e['peer_run_s'] * 1e3:.1f}", f"{e['ratio_median']:.3f}",
        f"({min(e['ratio_runs']):.3f} to {max(e['ratio_runs']):.3f})", f"{e['ours_whole_s'] / 60 / len(cores):.2f} min",
        f"{e['peer_whole_s'] / 60 / len(cores):.2f} min"] for e in entries])
    print(f"User time of one processor; 200 seeds: of all cells, on {number(len(cores))} processors. The outcomes are equal.")
    if args.json:
        document = {"schema": "weft-bench/1", "host": host_facts(loads), "seed": args.seed, "cases": entries}
        args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
