"""Runs our engine and DPDK's rte_sched in turns on the same hierarchy and loop, and writes one document.
`scripts/bench-peers sched` builds both and calls this."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import merge
import plot
from compare import RUNS_MIN, host_facts, number, parsed, run, say, table

# (pipes, classes that are busy, packets in each queue)
SHAPES = [(64, 1, 1), (64, 4, 1), (64, 13, 1), (64, 13, 8), (256, 4, 1), (256, 13, 1), (256, 13, 8),
          (4096, 1, 1), (4096, 4, 1), (4096, 4, 8), (4096, 13, 1)]
REFILLS = ("same", "shuffled")
# All shapes; 16 classes are all 16 queues of a pipe, so 4096 pipes have 65,536.
WHOLE = [(pipes, classes, deep) for pipes in (64, 256, 4096) for classes in (1, 4, 13, 16) for deep in (1, 8)
         if classes != 16 or pipes == 4096]
WHOLE_REFILLS = ("same", "shuffled", "drain")


def grid(args):
    """The cases: (pipes, classes, deep, refill, lengths, limits)."""
    if not args.whole:
        yield from ((*shape, refill, "64", "free") for shape in SHAPES for refill in REFILLS)
        return
    for shape in WHOLE:
        for lengths in ("64", "mixed"):
            yield from ((*shape, refill, lengths, "free") for refill in WHOLE_REFILLS)
            # Limits that bind hold what comes to them, so packets go back to their own queues.
            yield (*shape, "same", lengths, "binding")


def cases(args):
    """The cases: (name, options of both programs)."""
    for pipes, classes, deep, refill, lengths, limits in grid(args):
        if args.pipes and pipes not in args.pipes:
            continue
        name = f"sched-{pipes}-pipes-{classes}-classes-{refill}-{deep}-deep"
        name += "-mixed" if lengths == "mixed" else ""
        name += "-binding" if limits == "binding" else ""
        yield name, [f"--pipes={pipes}", f"--classes={classes}", f"--refill={refill}", f"--per-queue={deep}",
                     f"--packets={args.packets}", f"--lengths={lengths}", f"--limits={limits}"]


class Dropped(merge.BadOutput):
    """A run that did other work than its peer."""


def figure(command, name):
    """The packets per second that a program prints."""
    line = parsed(run(command), command)
    if line.get("dropped"):
        raise Dropped(f"{name}: {line['dropped']} packets were dropped, so the two sides do not do the same work")
    return merge.positive(line.get("pps"), f"pps of {name}"), line.get("version", "DPDK")


def entry(args, name, options):
    """One case: the repeats of both sides in turns, the order turned each time."""
    ours, theirs, version = [], [], ""
    for repeat in range(args.runs):
        for side in ("ours", "theirs") if repeat % 2 == 0 else ("theirs", "ours"):
            if side == "ours":
                ours.append(figure([str(args.hqos), *options], f"our {name}")[0])
            else:
                speed, version = figure([str(args.peers / "rte_sched"), *options], f"the peer's {name}")
                theirs.append(speed)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "case": name, "peer": f"{version} rte_sched", "ours_pps": median(ours), "peer_pps": median(theirs),
        "ratio_median": median(ratios), "ratio_runs": ratios, "ours_pps_runs": ours, "peer_pps_runs": theirs,
    }


def arguments(argv):
    parser = argparse.ArgumentParser(prog="scripts/bench-peers sched", description=__doc__.split(".")[0])
    parser.add_argument("--peers", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--hqos", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=RUNS_MIN, help=f"repeats, at least {RUNS_MIN} (the default)")
    parser.add_argument("--packets", type=int, default=4_000_000, help="packets of a run")
    parser.add_argument("--pipes", type=int, nargs="+", help="only cases with these numbers of pipes")
    parser.add_argument("--whole", action="store_true", help="all shapes, orders, lengths and limits: 160 cases, about an hour")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the document here")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw the ratios here")
    args = parser.parse_args(argv)
    if args.runs < RUNS_MIN:
        parser.error(f"--runs must be at least {RUNS_MIN}")
    return args


def main(argv):
    args = arguments(argv)
    entries, loads, left_out = [], [], []
    try:
        for name, options in cases(args):
            loads.append({"load": os.getloadavg()[0]})
            try:
                entries.append(entry(args, name, options))
                say(f"{name}: {entries[-1]['ratio_median']:.2f}")
            except Dropped as dropped:
                left_out.append(str(dropped))
                say(f"left out: {dropped}")
        if not entries:
            raise merge.BadOutput("no case is left")
    except (merge.BadOutput, OSError, subprocess.SubprocessError) as error:
        say(f"error: {error}")
        return 1
    table(["case", "peer", "ours pkt/s", "peer pkt/s", "ratio", "(least to most)"], [[
        e["case"], e["peer"], number(e["ours_pps"]), number(e["peer_pps"]), f"{e['ratio_median']:.2f}",
        f"({min(e['ratio_runs']):.2f} to {max(e['ratio_runs']):.2f})"] for e in entries])
    if args.json:
        host = host_facts(loads)
        if left_out:
            host["detected"]["left_out"] = "; ".join(left_out)
        document = {"schema": "weft-bench/1", "host": host, "cases": entries}
        args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if args.svg:
        args.svg.write_text(plot.ratios(entries), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
