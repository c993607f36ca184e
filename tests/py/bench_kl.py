"""The rows of ``make bench`` about kl plan and kl apply: what they add to terraform's own time."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gen_state import BigState
from standins.mirror import make_mirror
from terraform_runs import BINARIES, Configuration

ROUNDS = 5
# Runs the real program, and notes how long that took.
WRAPPER = """#!/bin/sh
began=$(date +%s%N)
{program} "$@"
status=$?
echo $(($(date +%s%N) - began)) >> {times}
exit $status
"""


def measure_kl(
    url: str, size: int, folder: Path, timed: Callable[..., tuple[float, bytes]]
) -> Iterator[tuple[str, list[float], float, float]]:
    """What is measured, the seconds of each round, and the limits in milliseconds."""
    state = BigState(size, lineage="kl")
    timed("POST", "/v1/states/kl", state.render())
    number = f"{state.instances:,} resources"
    yield f"delta commit of 10 instances, {number}", _commits(state, timed), 100, 60
    if not BINARIES:
        print("Neither terraform nor tofu is on PATH: kl plan and kl apply are not measured.")
        return
    work, times = _prepare(url, folder)
    for what, command in (("plan", ["plan"]), ("apply", ["apply", "--yes"])):
        added = []
        for i in range(ROUNDS):
            times.write_text("")
            change = f"--var=slow_a_version={what}-{i}"
            began = time.perf_counter()
            printed = work.kl(*command, "-f", "slow_a.tf", "--no-refresh", change)
            took = time.perf_counter() - began
            if "1 to replace" not in printed:
                raise RuntimeError(printed)
            added.append(took - sum(int(line) for line in times.read_text().split()) / 1e9)
        yield f"kl {what} -f, {number}: beside terraform's time", added, 1000, 600


def _commits(state: BigState, timed: Callable[..., tuple[float, bytes]]) -> list[float]:
    def act(action: str, **request: Any) -> tuple[float, Any]:
        body = json.dumps({"state": "kl", "who": "bench", **request}).encode()
        seconds, content = timed("POST", f"/v1/state-engine/{action}", body)
        return seconds, json.loads(content)

    run = act("apply-runs/begin", base_version=1)[1]["run"]
    tag = "module.primary_herd.random_id.tag"
    granted = act("reservations/acquire", run=run, write=[tag], read=[])[1]
    seconds = []
    for i in range(1, ROUNDS + 1):
        tags = range(i, i + 10)
        state.change(i, tags=tags)
        put = [
            {
                "module": "module.primary_herd",
                "mode": "managed",
                "type": "random_id",
                "name": "tag",
                "provider": 'provider["registry.terraform.io/hashicorp/random"]',
                "instance": state.primary.tags[k],
            }
            for k in tags
        ]
        fencing, delta = granted["fencing"], {"put": put}
        took, _ = act("state/commit", run=run, fencing=fencing, commit=i, delta=delta)
        seconds.append(took)
    act("apply-runs/finish", run=run, status="committed")
    return seconds


def _prepare(url: str, folder: Path) -> tuple[Configuration, Path]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "KL_"))}
    providers = folder / "providers"
    providers.mkdir()
    env |= {
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TF_CLI_CONFIG_FILE": str(make_mirror(providers)),
        "CHECKPOINT_DISABLE": "1",
        "STANDIN_SLEEP_FACTOR": "0",
    }
    work = Configuration(BINARIES[0], folder / "example", env)
    work.example(url)
    text = (work.folder / "backend.tf").read_text()
    work.write("backend.tf", text.replace("/states/big-state", "/states/kl"))
    work.init()
    times, wrapper = folder / "times", folder / "timed-terraform"
    program = shutil.which(work.binary)
    wrapper.write_text(WRAPPER.format(program=program, times=times))
    wrapper.chmod(0o755)
    work.binary = str(wrapper)
    return work, times
