# SPDX-License-Identifier: MIT OR Apache-2.0
"""A campaign on engines: the part of scripts/test-engines that runs in namespaces of its own, as their first process.

Every process that can be seen is one of this run, so processes are found in /proc, and killed by their ids.
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

# A tmpfs of this namespace, so that nothing is left, whatever ends the run.
WORK = Path("/dev/shm")
HOST = "weft-engines"
# The most seconds to wait for anything: for slow machines.
PATIENCE = 300
SHARDS = 8
SCENARIO = 'warm_up = "5ms"\nduration = "{duration}ms"\n[[flows]]\ncount = 4\n[[probes]]\n'
GRID = """scenario = "scenario.toml"
seeds = 20
[[axes]]
key = "flows.0.count"
values = [4, 8]
[[axes]]
key = "host.nic.transmit_queues"
values = [2, 4]
"""
RUNS = 80


class Failed(Exception):
    """Something did not happen, with the words for the user."""


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def until(what, holds, seconds=PATIENCE):
    """Waits until it holds, and returns what it gives."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)


def processes():
    """The ids, parents and arguments of all processes that run."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if state not in "ZX":
            yield int(entry.name), int(parent), [os.fsdecode(word) for word in words]


def below(pid):
    """A process and its descendants."""
    found, all_of_them = [pid], list(processes())
    for of in found:
        found += [child for child, parent, _ in all_of_them if parent == of]
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    until("the end of killed processes", lambda: not {pid for pid, *_ in processes()} & set(pids))


class Campaign:
    """The campaign, with a store of its own for each engine."""

    def __init__(self, weft, name, log):
        self.weft, self.folder, self.log = weft, WORK / name, log
        self.folder.mkdir()
        self.out = self.folder / "results"

    def command(self, *words):
        return [self.weft, "campaign", *words]

    def text(self, command, *more):
        """What a command that names grid and store prints."""
        words = self.command(command, WORK / "grid.toml", "--out", self.out, *more)
        return subprocess.run(words, stdout=subprocess.PIPE, stderr=self.log, text=True, check=True).stdout

    def commands(self):
        path = self.folder / "shards.txt"
        path.write_text(self.text("run", "--list", "--shards", str(SHARDS)))
        return path

    def runs(self):
        """The processes of weft that work for this store, with their parents."""
        mine = {str(self.out)}
        return {pid: parent for pid, parent, words in processes()
                if words[0].endswith("weft") and mine & set(words) and "run" in words}

    def files(self):
        """The content of all files by path."""
        return {str(path.relative_to(self.out)): path.read_bytes() for path in self.out.rglob("*") if path.is_file()}

    def results(self):
        return sum(1 for _ in self.out.rglob("*.json"))

    def middle(self, more=0):
        """Waits until runs are under way and results are there, `more` than at the moment; returns the processes."""
        enough = self.results() + more
        return until("runs under way", lambda: self.results() >= max(enough, 1) and self.runs())

    def interrupted(self):
        """Says how many results there were; not all, if the kill was in the middle."""
        results = self.results()
        if results >= RUNS:
            raise Failed(f"all {RUNS} results were there before the kill: the campaign is too short for this machine")
        return f"at {results} of {RUNS}"


class Engine:
    """Processes of an engine, whose output goes to a log."""

    def __init__(self, folder, campaign):
        self.folder, self.campaign = Path(folder), campaign
        self.log, self.work = campaign.log, campaign.folder
        self.running, self.killed = [], []
        self.environment = {**os.environ, "HOME": str(self.work), "TMPDIR": str(self.work)}

    def path(self, name):
        return str(self.work / name)

    def start(self, *words, **more):
        words = [str(word) for word in words]
        self.log.write(f"$ {shlex.join(words)}\n".encode())
        options = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log, "cwd": self.work}
        process = subprocess.Popen(words, **{"env": self.environment, **options, **more})
        self.running.append(process)
        return process

    def run(self, *words, **more):
        """Runs a command to its end, which has to be a success."""
        process = self.start(*words, **more)
        out, _ = process.communicate(timeout=2 * PATIENCE)
        self.running.remove(process)
        if process.returncode:
            raise Failed(f"{Path(str(words[0])).name} ended with exit code {process.returncode}")
        return (out or b"").decode()

    def kill(self, what, pids):
        kill(pids)
        self.killed.append(f"{what} {self.campaign.interrupted()}")

    def end(self):
        kill([pid for process in self.running if process.poll() is None for pid in below(process.pid)])
        # Those whose parents have died.
        kill([pid for pid, *_ in processes() if pid != os.getpid()])


class Parallel(Engine):
    """GNU parallel: a job that is killed is tried again; after a kill of parallel itself, the same command goes on by its log."""

    name = "GNU parallel"

    def version(self):
        return self.run("perl", self.program(), "--version", stdout=subprocess.PIPE).split("\n")[0].split()[-1]

    def program(self):
        return self.folder / "usr/bin/parallel"

    def command(self):
        return ["perl", self.program(), "--will-cite", "--jobs", "2", "--retries", "3", "--joblog", self.path("joblog"),
                "--resume-failed", "--arg-file", self.commands]

    def go(self):
        self.commands = self.campaign.commands()
        parallel = self.start(*self.command())
        self.kill("weft", list(self.campaign.middle())[:1])
        self.campaign.middle(2)
        self.kill("parallel", below(parallel.pid))
        self.running.remove(parallel)
        self.run(*self.command())


class HyperQueue(Engine):
    """HyperQueue's server and workers of its package for Python. It has no journal."""

    name = "HyperQueue"

    SERVER = "import hyperqueue, signal; cluster = hyperqueue.LocalCluster({server!r}); signal.pause()"
    # The package starts workers only beside a server of their own, which gets no jobs: they are sent to the other one.
    WORKER = """
import hyperqueue, os, signal
cluster = hyperqueue.LocalCluster({own!r})
os.remove({own!r} + "/hq-current")
os.symlink(os.path.realpath({server!r} + "/hq-current"), {own!r} + "/hq-current")
cluster.start_worker(hyperqueue.cluster.WorkerConfig(cores=1))
signal.pause()
"""
    CLIENT = """
import hyperqueue
client = hyperqueue.Client({server!r})
job = hyperqueue.Job(max_fails=None)
for number, line in enumerate(open({commands!r})):
    job.program(["sh", "-c", line], cwd={work!r}, stdout=f"{{number}}.out", stderr=f"{{number}}.err")
client.wait_for_jobs([client.submit(job)])
"""

    def python(self, text, **names):
        return [self.folder / "bin/python", "-c", text.format(server=self.path("server"), work=str(self.work), **names)]

    def version(self):
        return self.run(*self.python("import hyperqueue; print(hyperqueue.get_version())"), stdout=subprocess.PIPE).strip()

    def go(self):
        self.start(*self.python(self.SERVER))
        until("HyperQueue's server", (self.work / "server/hq-current").exists)
        workers = [self.start(*self.python(self.WORKER, own=self.path(f"worker{number}"))) for number in range(2)]
        client = self.start(*self.python(self.CLIENT, commands=str(self.campaign.commands())))
        runs = set(self.campaign.middle())
        self.kill("worker", [next(worker for worker in workers if runs & set(below(worker.pid))).pid])
        if client.wait(2 * PATIENCE):
            raise Failed("the job failed")


class Slurm(Engine):
    """Slurm's own daemons, with two nodes of a processor each. A node dies, and Slurm gives its job to the other."""

    name = "Slurm"

    CONFIGURATION = """ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={work}/munge/socket,cred_expire=10
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool.%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=15
ReturnToService=0
NodeName=node[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=1
PartitionName=all Nodes=ALL Default=YES State=UP
"""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        library = next(self.folder.glob("usr/lib/*/slurm-wlm"))
        configuration = {"host": HOST, "work": self.work, "plugins": library}
        Path(self.path("slurm.conf")).write_text(self.CONFIGURATION.format(**configuration))
        libraries = f"{library}:{library.parent}"
        self.environment |= {"SLURM_CONF": self.path("slurm.conf"), "LD_LIBRARY_PATH": libraries}
        for name in ("munge", "state", "spool.node1", "spool.node2"):
            Path(self.path(name)).mkdir(mode=0o755)

    def version(self):
        return self.run(self.program("bin/sinfo"), "--version", stdout=subprocess.PIPE).split()[-1]

    def program(self, name):
        return self.folder / "usr" / name

    def go(self):
        munge = self.work / "munge"
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        words = [f"--{file}={munge / name}" for file, name in
                 [("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]]
        self.start(self.program("sbin/munged"), "--foreground", *words)
        until("munged", (munge / "socket").exists)
        self.start(self.program("sbin/slurmctld-wlm"), "-D")
        for node in ("node1", "node2"):
            self.start(self.program("sbin/slurmd-wlm"), "-D", "-N", node, "-d", self.program("sbin/slurmstepd-wlm"))
        until("both nodes", lambda: self.scontrol("show", "node").count("State=IDLE") == 2)
        (self.work / "job.sh").write_text(self.campaign.text("slurm", "--nodes", str(SHARDS)))
        self.run(self.program("bin/sbatch"), "job.sh")
        run = until("a run on the second node", lambda: [run for run in self.campaign.middle() if self.node(run) == "node2"])[0]
        daemon = next(pid for pid, _, words in processes() if words[0].endswith("slurmd-wlm") and "node2" in words)
        # What runs jobs is no child of the daemon, and outlives it.
        step = self.campaign.runs().get(run)
        self.kill("node", [daemon, *([step] if step else []), run])
        until("Slurm's notice of the node's death", lambda: "DOWN" in self.scontrol("show", "node", "node2"))
        until("the end of all jobs", lambda: not set(self.states()) - {"COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT", "CANCELLED"},
              2 * PATIENCE)
        if set(self.states()) != {"COMPLETED"} or not re.search(r"Restarts=[1-9]", self.scontrol("show", "job")):
            raise Failed(f"jobs ended as {self.states()}, or none was started again")

    def scontrol(self, *words):
        done = subprocess.run([self.program("bin/scontrol"), *words], stdout=subprocess.PIPE, stderr=self.log, env=self.environment,
                              check=False)
        return done.stdout.decode()

    def states(self):
        return re.findall(r"JobState=(\w+)", self.scontrol("show", "job")) or ["UNKNOWN"]

    @staticmethod
    def node(pid):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return None
        return next((word[16:].decode() for word in words if word.startswith(b"SLURMD_NODENAME=")), None)


class Ray(Engine):
    """Ray with two nodes. A worker is killed, then a node; tasks go on at the other one."""

    name = "Ray"

    PORT = 6379

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(self.work), "RAY_ADDRESS": f"127.0.0.1:{self.PORT}"}

    def version(self):
        return self.run(self.folder / "bin/python", "-c", "import ray; print(ray.__version__)", stdout=subprocess.PIPE).strip()

    def node(self, *words):
        environment = {name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"}
        return self.start(self.folder / "bin/python", self.folder / "bin/ray", "start", *words, "--num-cpus=1", "--block",
                          "--node-ip-address=127.0.0.1", "--object-store-memory=100000000", env=environment)

    def raylets(self):
        return {pid: words for pid, _, words in processes() if words[0].endswith("/raylet")}

    def go(self):
        self.node("--head", f"--port={self.PORT}", "--include-dashboard=false", f"--temp-dir={self.work}/r")
        until("Ray's first node", self.raylets)
        head = set(self.raylets())
        second = self.node(f"--address=127.0.0.1:{self.PORT}")
        until("Ray's second node", lambda: set(self.raylets()) - head)
        program = self.work / "campaign.py"
        program.write_text(self.campaign.text("ray", "--shards", str(SHARDS)))
        driver = self.start(self.folder / "bin/python", "-B", program)
        worker = next(iter(self.campaign.middle().values()))
        self.kill("worker", [worker])
        def on_second_node():
            here = set(below(second.pid))
            return [run for run in self.campaign.runs() if run in here]
        until("a run on Ray's second node", on_second_node)
        self.kill("node", below(second.pid))
        if driver.wait(2 * PATIENCE):
            raise Failed("the program for Ray failed")


ENGINES = {"parallel": Parallel, "hyperqueue": HyperQueue, "slurm": Slurm, "ray": Ray}


def prepare():
    """Names the host, and gives it the loopback device and a folder that ends with this process."""
    socket.sethostname(HOST)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm resolves names as for a host that has an address besides 127.0.0.1. It is the loopback device's, too.
    subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "weft-engines", WORK], check=True)
    hosts = WORK / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOST}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    (WORK / "grid.toml").write_text(GRID)
    (WORK / "scenario.toml").write_text(SCENARIO.format(duration=300))


def tried(name, folder, arguments, local):
    """Runs the campaign on an engine, and returns what is to be told of it."""
    kind = ENGINES[name]
    log = open(WORK / f"{name}.log", "wb", buffering=0)
    begin = time.monotonic()
    told = {"engine": kind.name, "version": None, "killed": [], "runs": RUNS, "equal": False}
    engine = None
    try:
        engine = kind(folder, Campaign(arguments.weft, name, log))
        told["version"] = engine.version()
        say(f"== {kind.name} {told['version']}")
        engine.go()
        told["killed"] = engine.killed
        until("the last weft", lambda: not engine.campaign.runs())
        theirs = engine.campaign.files()
        differ = sorted(path for path in theirs.keys() | local.keys() if theirs.get(path) != local.get(path))
        if differ:
            raise Failed(f"{len(differ)} files differ from the local campaign's, such as {differ[0]}")
        told["equal"] = True
    except (Failed, OSError, StopIteration, subprocess.SubprocessError) as error:
        told["error"] = str(error) or repr(error)
        say(f"FAILED: {kind.name}: {told['error']}; the end of its output:")
        say((WORK / f"{name}.log").read_bytes()[-6000:].decode(errors="replace"))
    finally:
        if engine:
            engine.end()
        log.close()
    told["seconds"] = round(time.monotonic() - begin, 1)
    return told


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weft", required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("engines", nargs="*")
    arguments = parser.parse_args()
    prepare()
    entries = []
    if arguments.engines:
        with open(WORK / "local.log", "wb", buffering=0) as log:
            campaign = Campaign(arguments.weft, "local", log)
            begin = time.monotonic()
            subprocess.run(campaign.command("run", WORK / "grid.toml", "--out", campaign.out), stderr=log, check=True)
            local = campaign.files()
        say(f"== local: {len(local)} results in {time.monotonic() - begin:.1f} s")
        if len(local) != RUNS:
            sys.exit(f"error: the local campaign made {len(local)} of {RUNS} results")
    for engine in arguments.engines:
        name, _, folder = engine.partition("=")
        entries.append(tried(name, folder, arguments, local))
    rows = [(e["engine"], e["version"] or "", ", ".join(e["killed"]), "equal" if e["equal"] else "FAILED", f"{e['seconds']} s") for e in entries]
    rows.insert(0, ("engine", "version", "killed with results", "results", "time"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows if entries else []:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for without in arguments.without:
        name, _, reason = without.partition("=")
        print(f"not tried: {name}: {reason}")
        entries.append({"engine": name, "without": reason})
    if arguments.json:
        arguments.json.write_text(json.dumps({"engines": entries}, indent=2) + "\n")
    if not arguments.engines:
        print("skipped: no engine could be had")
        return 3
    return 0 if all(entry.get("equal", True) for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
