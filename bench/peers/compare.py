"""Runs our simulator and its peers in turns and writes one document. `scripts/bench-peers` builds both and calls this."""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import merge

SCHEDULERS = ("map", "heap", "calendar", "priority-queue")
# A median of fewer says little on a machine that others use too (docs/measuring.md).
RUNS_MIN = 5


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command):
    """What a command prints; it must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise merge.BadOutput(f"{shlex.join(command)}: exit status {done.returncode}")
    return done.stdout


def parsed(text, command):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise merge.BadOutput(f"{shlex.join(command)}: what it prints is not JSON: {error}") from error


def peer_commands(args, kind):
    """The peer's runs of a kind: (case, command)."""
    if kind == "hold":
        sizes = [(f"hold-{n}", ["ns3_hold", f"--pending={n}", f"--events={args.hold_events}"]) for n in args.hold_pending]
    else:
        seconds = args.udp_seconds if kind == "udp" else args.tcp_seconds
        sizes = [(kind, [f"ns3_{kind}", f"--seconds={seconds}"])]
    for case, (program, *options) in sizes:
        for scheduler in args.scheduler:
            yield case, [str(args.peers / program), f"--scheduler={scheduler}", *options]


def run_peers(args, kind, backwards):
    """The peer's lines by case. `backwards` turns the order of its runs, so that none is always the first."""
    found = {}
    commands = list(peer_commands(args, kind))
    for case, command in reversed(commands) if backwards else commands:
        found.setdefault(case, []).append(merge.peer_figures(parsed(run(command), command), case))
    return found


def one_repeat(args, number):
    """One repeat of every kind: ours, theirs; in the next repeat theirs, ours."""
    repeat = {"ours": {}, "peers": {}, "load": os.getloadavg()[0]}
    backwards = number % 2 == 1
    for kind in args.kind:
        def ours(kind=kind):
            if not args.theirs_only:
                command = shlex.split(getattr(args, f"ours_{kind}"))
                repeat["ours"].update(merge.ours_from_document(parsed(run(command), command)))

        def theirs(kind=kind):
            repeat["peers"].update(run_peers(args, kind, backwards))

        for side in (theirs, ours) if backwards else (ours, theirs):
            side()
    say(f"repeat {number + 1} of {args.runs}: load {repeat['load']:.2f} before it")
    return repeat


def host_facts(repeats):
    """Where it ran, and how busy that was: the load average (of one minute) before each repeat, our own included."""
    cores = len(os.sched_getaffinity(0))
    loads = ", ".join(f"{repeat['load']:.2f}" for repeat in repeats)
    return {"kernel": platform.release(), "cores": cores, "detected": {"load_before_repeats": loads}}


def table(header, rows):
    """Columns as wide as they must be; numbers to the right."""
    texts = [header, *rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    for row in texts:
        cells = [text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def number(value):
    """A figure with four digits, or a dash where there is none."""
    if value is None:
        return "-"
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3f}{suffix}"
    return f"{value:.4g}"


def show(document):
    header = ["case", "peer", "ours ev/s", "peer ev/s", "ratio", "(least to most)", "packets", "sim time", "fastest"]
    rows = []
    for entry in document["cases"]:
        runs = entry["ratio_runs"]
        rows.append([
            entry["case"], entry["peer"], number(entry["ours_pps"]), number(entry["peer_pps"]),
            f"{entry['ratio_median']:.2f}", f"({min(runs):.2f} to {max(runs):.2f})",
            number(entry.get("packets_ratio_median")), number(entry.get("sim_ratio_median")),
            "yes" if entry["peer_is_fastest_setting"] else "",
        ])
    table(header, rows)
    print("ratio: events per wall second, ours to theirs; packets: delivered packets per wall second, likewise;")
    print("sim time: simulated seconds per wall second, likewise. fastest: the peer's fastest setting in the case.")


def show_peers(rows):
    header = ["case", "scheduler", "events/s", "(least to most)", "packets/s", "sim s/wall s", "goodput bit/s"]
    table(header, [[
        row["case"], row["scheduler"], number(row["events_per_s"]),
        f"({number(row['least'])} to {number(row['most'])})", number(row.get("packets_per_s")),
        number(row.get("sim_s_per_wall_s")), number(row.get("goodput_bps")),
    ] for row in rows])


def arguments(argv):
    parser = argparse.ArgumentParser(prog="scripts/bench-peers", description=__doc__.split(".")[0])
    parser.add_argument("kind", nargs="*", metavar="KIND", help="hold, udp, tcp; all without it")
    parser.add_argument("--peers", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--weft", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=RUNS_MIN, help=f"repeats, at least {RUNS_MIN} (the default)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the document here")
    parser.add_argument("--theirs-only", action="store_true", help="measure the peer alone; makes no document")
    parser.add_argument("--scheduler", action="append", choices=SCHEDULERS, help="of ns-3; all four without it")
    parser.add_argument("--hold-pending", type=int, nargs="+", default=[100, 1000, 10000, 100000])
    parser.add_argument("--hold-events", type=int, default=3_000_000)
    parser.add_argument("--udp-seconds", type=float, default=0.5)
    parser.add_argument("--tcp-seconds", type=float, default=0.5)
    for kind in ("hold", "udp", "tcp"):
        parser.add_argument(f"--ours-{kind}", metavar="COMMAND", help=f"prints our document of {kind}, one run")
    args = parser.parse_args(argv)
    unknown = set(args.kind) - {"hold", "udp", "tcp"}
    if unknown:
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are hold, udp, tcp")
    if args.runs < RUNS_MIN:
        parser.error(f"--runs must be at least {RUNS_MIN}")
    if args.theirs_only and args.json:
        parser.error("--theirs-only makes no document; leave out --json")
    args.kind = args.kind or ["hold", "udp", "tcp"]
    args.scheduler = args.scheduler or list(SCHEDULERS)
    for kind in ("hold", "udp", "tcp"):
        if getattr(args, f"ours_{kind}") is None:
            setattr(args, f"ours_{kind}", f"{shlex.quote(args.weft)} bench sim-{kind} --runs 1 --json -")
    return args


def main(argv):
    args = arguments(argv)
    try:
        repeats = [one_repeat(args, number) for number in range(args.runs)]
        if args.theirs_only:
            show_peers(merge.peer_summary(repeats))
            return 0
        document = merge.document(repeats, host_facts(repeats))
    except (merge.BadOutput, OSError) as error:
        say(f"error: {error}")
        return 1
    show(document)
    if args.json:
        args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
