"""From the repeats of both sides to one document: pure functions, no clock and no processes.

A repeat is a dict: `ours` maps a case to our figures, `peers` maps a case to a list of a peer's figures, one for each of
the peer's schedulers. Figures are dicts with `events_per_s`, and for networks `packets_per_s`, `sim_s_per_wall_s` and
`goodput_bps`.
"""

from statistics import median

# Figures of the two sides whose ratio is taken, and the prefix of the ratio's name in the document. An event is not the
# same work on both sides, so networks have the other two as well.
RATIOS = {"events_per_s": "ratio", "packets_per_s": "packets_ratio", "sim_s_per_wall_s": "sim_ratio"}
# Shown for both sides, but no measure of speed: that both simulate the same. They must agree within this part of the peer's.
SHOWN = ("goodput_bps",)
AGREEMENT = 0.01


class BadOutput(Exception):
    """What a program printed is not what was agreed."""


def positive(value, what):
    """`value` if it is a number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise BadOutput(f"{what} is {value!r}, not a positive number")
    return float(value)


def ours_from_document(document):
    """Our figures by case from a document of `weft bench`. A case may be called `sim-hold-1000` or `hold-1000`."""
    if not isinstance(document, dict) or not isinstance(document.get("cases"), list):
        raise BadOutput("our document has no list `cases`")
    found = {}
    for case in document["cases"]:
        if not isinstance(case, dict) or not isinstance(case.get("case"), str):
            raise BadOutput("a case of our document has no name")
        name = case["case"].removeprefix("sim-")
        if name in found:
            raise BadOutput(f"our document has the case {name} twice; it must make one run (--runs 1)")
        further = case.get("figures", case)
        if not isinstance(further, dict):
            raise BadOutput(f"figures of our {name} are not an object")
        figures = {"events_per_s": positive(case.get("ours_pps"), f"ours_pps of our {name}")}
        for key in (*RATIOS, *SHOWN):
            if key != "events_per_s" and key in further:
                figures[key] = positive(further[key], f"{key} of our {name}")
        found[name] = figures
    return found


def peer_figures(line, wanted_case):
    """A peer's line, checked to be of the case that was asked for and to hold what its kind of case needs."""
    if not isinstance(line, dict) or line.get("case") != wanted_case:
        raise BadOutput(f"the peer's line is not of the case {wanted_case}")
    needed = ["events_per_s"]
    if "sim_s" in line:
        needed += ["packets_per_s", "sim_s_per_wall_s", *SHOWN]
    for key in needed:
        positive(line.get(key), f"{key} of the peer's {wanted_case}")
    return line


def _peer_runs(repeats, case):
    """By scheduler, in the order they ran first: the runs of all repeats."""
    runs = {}
    for repeat in repeats:
        for line in repeat["peers"].get(case, []):
            runs.setdefault(line["scheduler"], []).append(line)
    for scheduler, lines in runs.items():
        if len(lines) != len(repeats):
            raise BadOutput(f"{case} with {scheduler}: {len(lines)} runs in {len(repeats)} repeats")
    return runs


def peer_name(line):
    """The peer as the document calls it."""
    default = ", its default" if line["scheduler"] == "map" else ""
    return f"ns-3 {line['version']} ({line['scheduler']} scheduler{default})"


def agree(case, key, ours, theirs):
    """Two simulations of the same network carry the same: a speed of something else is no comparison."""
    if abs(ours / theirs - 1) > AGREEMENT:
        raise BadOutput(f"{case}: {key} is {ours:.4g} with us and {theirs:.4g} with the peer; they must agree within 1 %")


def _entry(case, ours, theirs):
    """One entry of the document: our runs of a case beside the peer's, repeat by repeat."""
    entry = {"case": f"sim-{case}", "peer": peer_name(theirs[0])}
    for key, prefix in RATIOS.items():
        if not all(key in run for run in (*ours, *theirs)):
            if key in theirs[0]:
                raise BadOutput(f"our {case} does not say {key}, which the peer says")
            continue
        ours_runs = [float(run[key]) for run in ours]
        theirs_runs = [float(run[key]) for run in theirs]
        ratios = [a / b for a, b in zip(ours_runs, theirs_runs, strict=True)]
        short = "pps" if key == "events_per_s" else key
        entry[f"ours_{short}"] = median(ours_runs)
        entry[f"peer_{short}"] = median(theirs_runs)
        entry[f"{prefix}_median"] = median(ratios)
        entry[f"{prefix}_runs"] = ratios
        entry[f"ours_{key}_runs"] = ours_runs
        entry[f"peer_{key}_runs"] = theirs_runs
    for key in SHOWN:
        for side, runs in (("ours", ours), ("peer", theirs)):
            if all(key in run for run in runs):
                entry[f"{side}_{key}"] = median(float(run[key]) for run in runs)
            elif key in theirs[0]:
                raise BadOutput(f"our {case} does not say {key}, which the peer says")
        if f"peer_{key}" in entry:
            agree(case, key, entry[f"ours_{key}"], entry[f"peer_{key}"])
    entry["peer_build_profile"] = theirs[0].get("profile", "unknown")
    return entry


def merge(repeats):
    """The entries of the document, case by case; of several schedulers of the peer the fastest is marked."""
    if not repeats:
        raise BadOutput("no repeats")
    entries = []
    for case in dict.fromkeys(case for repeat in repeats for case in repeat["peers"]):
        absent = [number for number, repeat in enumerate(repeats, 1) if case not in repeat["ours"]]
        if absent:
            raise BadOutput(f"our side has no case {case} in repeat {absent[0]}")
        ours = [repeat["ours"][case] for repeat in repeats]
        of_case = [_entry(case, ours, theirs) for theirs in _peer_runs(repeats, case).values()]
        fastest = max(of_case, key=lambda entry: entry["peer_pps"])
        for entry in of_case:
            entry["peer_is_fastest_setting"] = entry is fastest
        entries += of_case
    return entries


def document(repeats, host):
    """The whole document, as docs/schemas/weft-bench.schema.json has it."""
    return {"schema": "weft-bench/1", "host": host, "cases": merge(repeats)}


def peer_summary(repeats):
    """Rows for the peer alone: case, scheduler, medians of its figures, and the spread of events per second."""
    rows = []
    for case in dict.fromkeys(case for repeat in repeats for case in repeat["peers"]):
        for scheduler, lines in _peer_runs(repeats, case).items():
            events = [line["events_per_s"] for line in lines]
            row = {"case": case, "scheduler": scheduler, "least": min(events), "most": max(events)}
            for key in (*RATIOS, *SHOWN):
                if key in lines[0]:
                    row[key] = median(line[key] for line in lines)
            rows.append(row)
    return rows
