"""The merging, on repeats whose answer is plain to see. `scripts/bench-peers --self-test` runs it."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import campaign
import compare
import merge
import sched
import titan

SCHEMA = Path(__file__).resolve().parents[2] / "docs/schemas/weft-bench.schema.json"
HOST = {"kernel": "6.1", "cores": 2, "detected": {}}


def theirs(case, scheduler, speed, network=False):
    line = {"case": case, "scheduler": scheduler, "version": "3.37", "profile": "release", "events_per_s": speed}
    if network:
        line |= {"sim_s": 1.0, "packets_per_s": speed / 4, "sim_s_per_wall_s": speed / 1e6, "goodput_bps": 9e9}
    return line


def ours(case, speed, **figures):
    return merge.ours_from_document({"cases": [{"case": case, "ours_pps": speed, "figures": figures}]})


def hold_repeats(ours_speeds, peer_speeds):
    return [
        {"ours": ours("hold-100", a), "peers": {"hold-100": [theirs("hold-100", s, v[i]) for s, v in peer_speeds.items()]}}
        for i, a in enumerate(ours_speeds)
    ]


def schema_errors(value, schema, defs, at=""):
    """What is wrong with `value`, for the words of JSON Schema that the schema of bench uses."""
    if "$ref" in schema:
        return schema_errors(value, defs[schema["$ref"].rsplit("/", 1)[1]], defs, at)
    is_type = {
        "object": lambda v: isinstance(v, dict), "array": lambda v: isinstance(v, list),
        "string": lambda v: isinstance(v, str), "null": lambda v: v is None, "boolean": lambda v: isinstance(v, bool),
        "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    }
    found = []
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type[t](value) for t in types):
        return [f"{at}: {value!r} is not {types}"]
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: {value!r} is not {schema['const']!r}")
    if "minimum" in schema and is_type["number"](value) and value < schema["minimum"]:
        found.append(f"{at}: {value!r} is below {schema['minimum']}")
    if isinstance(value, dict):
        found += [f"{at}: no {key}" for key in schema.get("required", []) if key not in value]
        for key, member in value.items():
            rule = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            if rule is False:
                found.append(f"{at}: {key} is unknown")
            elif isinstance(rule, dict):
                found += schema_errors(member, rule, defs, f"{at}/{key}")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            found += schema_errors(item, schema["items"], defs, f"{at}/{index}")
    return found


class Merging(unittest.TestCase):
    def test_ratios_are_taken_repeat_by_repeat(self):
        # The medians of both sides are 30 and 10, yet the median of the ratios is 2: pairs count, not medians.
        repeats = hold_repeats([30.0, 20.0, 40.0], {"map": [30.0, 10.0, 10.0]})
        entry, = merge.merge(repeats)
        self.assertEqual(entry["ratio_runs"], [1.0, 2.0, 4.0])
        self.assertEqual((entry["ratio_median"], entry["ours_pps"], entry["peer_pps"]), (2.0, 30.0, 10.0))
        self.assertEqual(entry["case"], "sim-hold-100")
        self.assertEqual(entry["peer"], "ns-3 3.37 (map scheduler, its default)")
        self.assertNotIn("sim_ratio_runs", entry)

    def test_the_peers_fastest_setting_is_marked_by_its_median(self):
        # heap has the best single run, calendar the best median.
        speeds = {"map": [5.0, 5.0, 5.0], "heap": [1.0, 99.0, 1.0], "calendar": [8.0, 7.0, 8.0]}
        entries = merge.merge(hold_repeats([10.0] * 3, speeds))
        self.assertEqual([e["peer_is_fastest_setting"] for e in entries], [False, False, True])

    def test_runs_stay_with_their_scheduler_when_the_order_turns(self):
        repeats = hold_repeats([10.0, 10.0], {"map": [1.0, 2.0], "heap": [5.0, 4.0]})
        repeats[1]["peers"]["hold-100"].reverse()
        ratios = {e["peer"]: e["ratio_runs"] for e in merge.merge(repeats)}
        self.assertEqual(ratios["ns-3 3.37 (heap scheduler)"], [2.0, 2.5])
        self.assertEqual(ratios["ns-3 3.37 (map scheduler, its default)"], [10.0, 5.0])

    def test_networks_have_packets_and_simulated_time_too(self):
        repeat = {
            "ours": ours("sim-tcp", 8000.0, packets_per_s=5000.0, sim_s_per_wall_s=0.5, goodput_bps=9.05e9),
            "peers": {"tcp": [theirs("tcp", "map", 1000.0, network=True)]},
        }
        entry, = merge.merge([repeat])
        self.assertEqual(entry["ratio_runs"], [8.0])
        self.assertEqual(entry["packets_ratio_runs"], [20.0])
        self.assertEqual(entry["sim_ratio_median"], 500.0)
        self.assertEqual((entry["ours_goodput_bps"], entry["peer_goodput_bps"]), (9.05e9, 9e9))

    def test_a_network_without_its_further_figures_is_refused(self):
        repeat = {"ours": ours("tcp", 8000.0), "peers": {"tcp": [theirs("tcp", "map", 1000.0, network=True)]}}
        with self.assertRaisesRegex(merge.BadOutput, "does not say packets_per_s"):
            merge.merge([repeat])
        repeat["ours"] = ours("tcp", 8000.0, packets_per_s=5000.0, sim_s_per_wall_s=0.5)
        with self.assertRaisesRegex(merge.BadOutput, "does not say goodput_bps"):
            merge.merge([repeat])

    def test_networks_that_carry_different_traffic_are_no_comparison(self):
        for goodput, refused in ((9e9, False), (9.08e9, False), (8.92e9, False), (9.1e9, True), (8.8e9, True)):
            repeat = {
                "ours": ours("tcp", 8000.0, packets_per_s=5000.0, sim_s_per_wall_s=0.5, goodput_bps=goodput),
                "peers": {"tcp": [theirs("tcp", "map", 1000.0, network=True)]},
            }
            with self.subTest(goodput=goodput):
                if refused:
                    with self.assertRaisesRegex(merge.BadOutput, "must agree within 1 %"):
                        merge.merge([repeat])
                else:
                    merge.merge([repeat])

    def test_figures_may_stand_beside_the_case(self):
        flat = {"cases": [{"case": "sim-udp", "ours_pps": 4, "packets_per_s": 3, "sim_s_per_wall_s": 2}]}
        self.assertEqual(merge.ours_from_document(flat)["udp"],
                         {"events_per_s": 4.0, "packets_per_s": 3.0, "sim_s_per_wall_s": 2.0})

    def test_what_is_missing_is_named(self):
        repeats = hold_repeats([1.0, 1.0], {"map": [1.0, 1.0]})
        repeats[1]["ours"] = {}
        with self.assertRaisesRegex(merge.BadOutput, "no case hold-100 in repeat 2"):
            merge.merge(repeats)
        repeats = hold_repeats([1.0, 1.0], {"map": [1.0, 1.0]})
        repeats[1]["peers"]["hold-100"] = []
        with self.assertRaisesRegex(merge.BadOutput, "1 runs in 2 repeats"):
            merge.merge(repeats)
        with self.assertRaises(merge.BadOutput):
            merge.merge([])

    def test_output_that_is_no_measurement_is_refused(self):
        for speed in (0, -1, None, "9", True, float("nan"), float("inf")):
            with self.subTest(speed=speed), self.assertRaises(merge.BadOutput):
                ours("hold-100", speed)
            with self.subTest(speed=speed), self.assertRaises(merge.BadOutput):
                merge.peer_figures(theirs("hold-100", "map", speed), "hold-100")
        for document in ([], {}, {"cases": {}}, {"cases": [1]}, {"cases": [{"case": "udp", "ours_pps": 1, "figures": 2}]},
                         {"cases": [{"case": "udp", "ours_pps": 1}, {"case": "sim-udp", "ours_pps": 1}]}):
            with self.subTest(document=document), self.assertRaises(merge.BadOutput):
                merge.ours_from_document(document)
        with self.assertRaises(merge.BadOutput):
            merge.peer_figures(theirs("hold-100", "map", 1.0), "hold-1000")

    def test_the_document_is_what_the_schema_says(self):
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        repeat = {
            "ours": ours("udp", 8.0, packets_per_s=5.0, sim_s_per_wall_s=0.5, goodput_bps=9e9),
            "peers": {"udp": [theirs("udp", "map", 1.0, network=True), theirs("udp", "heap", 2.0, network=True)]},
        }
        document = json.loads(json.dumps(merge.document([repeat], HOST)))
        self.assertEqual(schema_errors(document, schema, schema["$defs"]), [])
        del document["cases"][0]["ratio_runs"]
        document["cases"][1]["ratio_median"] = "2"
        self.assertEqual(len(schema_errors(document, schema, schema["$defs"])), 2)


class Running(unittest.TestCase):
    """The whole of it on programs that print fixed figures and log that they ran."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "log"

    def program(self, name, line):
        path = self.folder / name
        text = f"#!{sys.executable}\nimport sys\n" \
               f"open({str(self.log)!r}, 'a').write({name!r} + ' ' + ''.join(sys.argv[1:2]) + '\\n')\n{line}\n"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def run_main(self, *further):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = compare.main(["udp", "--peers", str(self.folder), "--weft", str(self.folder / "weft"), *further])
        return status, out.getvalue(), err.getvalue()

    def test_both_sides_run_in_turns(self):
        self.program("ns3_udp", "import json; s = sys.argv[1].split('=')[1]\n"
                     f"print(json.dumps({theirs('udp', 'x', 1000.0, network=True)!r} | {{'scheduler': s}}))")
        document = {"cases": [{"case": "sim-udp", "ours_pps": 2000.0,
                               "figures": {"packets_per_s": 500.0, "sim_s_per_wall_s": 0.01,
                                           "goodput_bps": 9e9}}]}
        self.program("weft", f"import json; print(json.dumps({document!r}))")
        target = self.folder / "out.json"
        status, out, _ = self.run_main("--scheduler", "map", "--scheduler", "heap", "--json", str(target))
        self.assertEqual(status, 0)
        log = [line.strip() for line in self.log.read_text(encoding="utf-8").splitlines()]
        forwards = ["weft bench", "ns3_udp --scheduler=map", "ns3_udp --scheduler=heap"]
        self.assertEqual(log, (forwards + forwards[::-1]) * 2 + forwards)
        cases = json.loads(target.read_text(encoding="utf-8"))["cases"]
        self.assertEqual([case["ratio_runs"] for case in cases], [[2.0] * 5] * 2)
        self.assertEqual([case["sim_ratio_median"] for case in cases], [10.0] * 2)
        self.assertIn("2.00", out)

    def test_a_program_that_fails_ends_it_without_a_document(self):
        self.program("weft", "sys.exit(3)")
        target = self.folder / "out.json"
        status, out, err = self.run_main("--json", str(target))
        self.assertEqual((status, out, target.exists()), (1, "", False))
        self.assertIn("exit status 3", err)
        self.program("weft", "print('nonsense')")
        status, _, err = self.run_main()
        self.assertEqual(status, 1)
        self.assertIn("not JSON", err)

    def test_too_few_repeats_are_refused(self):
        with self.assertRaises(SystemExit):
            self.run_main("--runs", "4")

    def run_sched(self, *further):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = sched.main(["--peers", str(self.folder), "--hqos", str(self.folder / "hqos"), "--pipes", "256", *further])
        return status, out.getvalue(), err.getvalue()

    def test_the_engine_and_rte_sched_run_in_turns(self):
        self.program("hqos", "print('{\"pps\": 30.0}')")
        self.program("rte_sched", "print('{\"pps\": 10.0, \"dropped\": 0, \"version\": \"DPDK 1\"}')")
        target = self.folder / "out.json"
        status, out, _ = self.run_sched("--json", str(target))
        self.assertEqual(status, 0)
        sides = [line.split()[0] for line in self.log.read_text(encoding="utf-8").splitlines()[:10]]
        self.assertEqual(sides, ["hqos", "rte_sched", "rte_sched", "hqos"] * 2 + ["hqos", "rte_sched"])
        document = json.loads(target.read_text(encoding="utf-8"))
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        self.assertEqual(schema_errors(document, schema, schema["$defs"]), [])
        self.assertEqual({case["ratio_median"] for case in document["cases"]}, {3.0})
        self.assertIn("DPDK 1 rte_sched", out)

    def test_a_peer_that_drops_packets_does_other_work(self):
        self.program("hqos", "print('{\"pps\": 30.0}')")
        self.program("rte_sched", "print('{\"pps\": 10.0, \"dropped\": 2}')")
        status, _, err = self.run_sched()
        self.assertEqual(status, 1)
        self.assertIn("dropped", err)

    def run_campaign(self, *further):
        out, err = io.StringIO(), io.StringIO()
        programs = ["--plain", str(self.folder / "plain"), "--weft", str(self.folder / "weft"), "--folder", str(self.folder)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = campaign.main([*programs, "--workers", "1", "2", "--per-worker", "4", *further])
        return status, out.getvalue(), err.getvalue()

    def test_campaigns_and_plain_runs_take_turns(self):
        for name in ("plain", "weft"):
            self.program(name, "")
        target = self.folder / "out.json"
        status, out, err = self.run_campaign("--json", str(target))
        self.assertEqual(status, 0, err)
        sides = [line.split()[0] for line in self.log.read_text(encoding="utf-8").splitlines()]
        # Four to find the duration; then plain, kept (the same program) and weft, and the same backwards.
        turns = ["plain", "plain", "weft", "weft", "plain", "plain"]
        self.assertEqual(sides[4:10], turns)
        self.assertEqual(sorted(sides[19:25]), sorted(turns))
        document = json.loads(target.read_text(encoding="utf-8"))
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        self.assertEqual(schema_errors(document, schema, schema["$defs"]), [])
        self.assertEqual([case["workers"] for case in document["cases"]], [1, 1, 2, 2])
        self.assertEqual([case["speedup"] for case in document["cases"][:2]], [1.0, 1.0])
        self.assertIn("campaign-weft-2-workers", out)
        self.assertEqual(list(self.folder.glob("weft-bench-*")), [])

    def test_a_campaign_that_fails_is_told(self):
        self.program("plain", "")
        self.program("weft", "sys.exit('no room')")
        status, _, err = self.run_campaign()
        self.assertEqual(status, 1)
        self.assertIn("weft: exit status 1: no room", err)

    def test_titans_tables_are_made_by_both_builds_in_turns(self):
        for name in ("base", "ours"):
            self.program(name, "print('{\"runs\": 1, \"events\": 7, \"digest\": \"a\"}')")
        target = self.folder / "out.json"
        programs = ["--base-program", str(self.folder / "base"), "--ours-program", str(self.folder / "ours")]
        more = ["--experiments", str(SCHEMA.parents[2] / "experiments"), "--named", "abc", "--every", "40", "--json", str(target)]
        out, err = io.StringIO(), io.StringIO()
        before = os.sched_getaffinity(0)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = titan.main([*programs, *more])
        self.assertEqual(status, 0, err.getvalue())
        self.assertEqual(os.sched_getaffinity(0), before)
        sides = [line.split()[0] for line in self.log.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(sides[:8], ["base", "ours", "ours", "base", "ours", "base", "base", "ours"])
        self.assertEqual(len(sides), 5 * 2 * 2)
        document = json.loads(target.read_text(encoding="utf-8"))
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        self.assertEqual(schema_errors(document, schema, schema["$defs"]), [])
        self.assertEqual((document["cases"][0]["case"], document["cases"][0]["events_per_run"]), ("titan-tables", 7.0))
        self.program("ours", "print('{\"runs\": 1, \"events\": 7, \"digest\": \"b\"}')")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(titan.main([*programs, *more]), 1)
        self.assertIn("the outcomes differ", err.getvalue())

    def test_the_cells_of_titans_tables_are_those_of_the_experiments(self):
        cells = titan.cells(SCHEMA.parents[2] / "experiments")
        # Table 4 has the scenarios of Table 3 with three flows.
        self.assertEqual(len(cells), 16 * 3 + 9 * 3)
        name, _, settings = next(cell for cell in cells if cell[0] == "titan-atc17-table3 Cvanilla 48")
        self.assertEqual(settings[-2:], ["host.stack.small_queue_floor=true", "flows.0.count=48"])
        self.assertIn("host.stack.small_queue_floor=false", settings)
        self.assertEqual(titan.value({"a": {"b": [1, True]}}), '{ "a" = { "b" = [1, true] } }')

    def test_a_case_that_drops_packets_is_left_out_and_named(self):
        self.program("hqos", "print('{\"pps\": 30.0}')")
        self.program("rte_sched", "import json; print(json.dumps({'pps': 10.0, 'dropped': int('--refill=shuffled' in sys.argv)}))")
        target, drawing = self.folder / "out.json", self.folder / "out.svg"
        status, _, err = self.run_sched("--json", str(target), "--svg", str(drawing))
        self.assertEqual(status, 0)
        self.assertIn("left out: ", err)
        document = json.loads(target.read_text(encoding="utf-8"))
        self.assertTrue(all("-same-" in case["case"] for case in document["cases"]))
        self.assertIn("shuffled", document["host"]["detected"]["left_out"])
        drawn = drawing.read_text(encoding="utf-8")
        self.assertEqual(drawn.count("<circle"), len(document["cases"]))
        self.assertTrue(drawn.startswith("<svg ") and drawn.endswith("</svg>\n"))

    def test_the_whole_grid_has_all_shapes_orders_lengths_and_limits(self):
        args = sched.arguments(["--peers", "p", "--hqos", "h", "--whole"])
        names = [name for name, _ in sched.cases(args)]
        self.assertEqual(len(names), len(set(names)))
        for part in ("4096-pipes-16-classes", "64-pipes-1-classes", "-drain-8-deep", "-mixed", "-same-1-deep-mixed-binding"):
            self.assertTrue(any(part in name for name in names), part)
        self.assertFalse(any("binding" in name and "-same-" not in name for name in names))


if __name__ == "__main__":
    unittest.main()
