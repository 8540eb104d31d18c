"""Runs the shards of a campaign as tasks of Ray: `python3 FILE`, in the folder from which the paths below count.

The cluster is that of RAY_ADDRESS, or the one that runs here, or one that is started on this machine. Results go to the store, not
through Ray: a task returns the store's path. After whatever end, the same command goes on: what exists is not made again.
"""

import ctypes
import os
import shlex
import signal
import subprocess
import sys

import ray

COMMAND = ["weft", "campaign", "run", "grid.toml", "--out", "results", "--threads", "1"]
STORE = "results"
SHARDS = 1
# Retries of a shard whose process, worker or node was killed.
RETRIES = 5
# For a cluster that is started here. Tasks put nothing there; without it, Ray takes a third of the memory.
OBJECT_STORE_BYTES = 100_000_000
# PR_SET_PDEATHSIG of Linux.
SIGNAL_AT_PARENTS_DEATH = 1


class Killed(Exception):
    """A signal has ended the process of a shard."""


@ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=[Killed])
def shard(number, folder):
    """Makes what is missing of a shard, and returns the path of the store."""
    command = [*COMMAND, "--shard", f"{number}/{SHARDS}"]
    prctl = ctypes.CDLL(None).prctl
    done = subprocess.run(
        command,
        cwd=folder,
        # Without it, the process would go on alone when Ray ends the worker.
        preexec_fn=lambda: prctl(SIGNAL_AT_PARENTS_DEATH, signal.SIGTERM),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        raise Killed(f"{shlex.join(command)}: ended by signal {-done.returncode}")
    if done.returncode > 0:
        raise RuntimeError(f"{shlex.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return os.path.join(folder, STORE)


def main():
    """Runs all shards, and prints the path of the store."""
    try:
        ray.init(address="auto")
    except ConnectionError:
        ray.init(object_store_memory=OBJECT_STORE_BYTES)
    left = [shard.remote(number, os.getcwd()) for number in range(1, SHARDS + 1)]
    failed, store = 0, STORE
    while left:
        done, left = ray.wait(left)
        for task in done:
            try:
                store = ray.get(task)
            except ray.exceptions.RayError as error:
                failed += 1
                print(f"error: {error}", file=sys.stderr)
        print(f"{SHARDS - len(left)} of {SHARDS} shards", file=sys.stderr)
    if failed:
        sys.exit(f"error: {failed} of {SHARDS} shards failed; give the same command again")
    print(store)


if __name__ == "__main__":
    main()
