# SPDX-License-Identifier: MIT
"""Random pairs of jobs run on a GPU. A cgroup limits their memory, as NVIDIA's MPS v3 does it.

limited_pairs.py BUILD FOLDER PAIRS SEED

The limiter is the software GPU's imitation. The first job takes its memory and keeps it until the
second one has ended. Where both run under Spillway nothing is ended, and all bytes are right.
Nothing is refused but memory that cannot leave the GPU, beyond the soft limit. For a job that runs
without Spillway, the model below predicts the outcome. A process is refused beyond its hard limit
or on a full GPU. It is ended beyond its soft limit when the other one, within its own, needs
room."""
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import time

MIB = 1 << 20
BLOCK = 8  # MiB, what the program takes at a time
BORROWERS = 0.3
STAYING = 0.15
REGION = "nvidia/0000:01:00.0/vidmem"
build, folder, pairs, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Job:
    """One job of a pair; all sizes in MiB."""

    def __init__(self, dice, device, soft, under):
        self.under = under
        self.api = dice.choice(["alloc", "alloc", "alloc", "async", "create"]) if under else "alloc"
        self.soft = soft
        self.hard = min(device, soft + 2 * dice.randint(0, device // 2))
        self.blocks = dice.randint(1, 2 * device // BLOCK)
        self.borrows = under and dice.random() < BORROWERS
        self.stays = under and self.api != "async" and dice.random() < STAYING  # spill = off

    def __str__(self):
        return (f"{'under Spillway' if self.under else 'without'} {self.api} {self.blocks * BLOCK} MiB, "
                f"soft {self.soft}, hard {self.hard}"
                f"{', borrows' if self.borrows else ''}{', stays' if self.stays else ''}")

    def start(self, name, top, device):
        """Starts it in a cgroup of its own below top/tree."""
        cgroup = f"{top}/tree/{name}"
        environment = dict(os.environ, SOFTGPU_STATE_DIR=f"{top}/gpu", SOFTGPU_MEMORY=f"{device}M", SOFTGPU_CGROUP=cgroup,
                           SOFTGPU_CONTEXT_MEMORY="0", SOFTGPU_QUIET="1", LD_LIBRARY_PATH=f"{build}/softgpu")
        if self.under:
            environment.update(SPILLWAY_CGROUP=cgroup, SPILLWAY_STATE_DIR=f"{top}/state", SPILLWAY_NODE_DIR=f"{top}/node",
                               SPILLWAY_JOB=name, SPILLWAY_HOST_MEMORY="1GiB", SPILLWAY_LOG="error",
                               LD_PRELOAD=f"{build}/lib/libspillway.so {build}/lib/libspillway-alias.so")
            if self.borrows:
                environment["SPILLWAY_MEMORY_MAX"] = "100%"
            if self.stays:
                environment["SPILLWAY_SPILL"] = "off"
        command = [f"{build}/tests/e2e/allocate", "--api", self.api, "--count", str(self.blocks), "--ready", f"{top}/{name}.ready"]
        if name == "first":
            command += ["--until", f"{top}/end"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self):
        """Waits for its end, and reads what became of it."""
        self.output = self.process.communicate(timeout=500)[0]
        refused = re.search(r"refused=(\d+)", self.output)
        self.refused = int(refused.group(1)) if refused else 0
        self.is_ended = "error 810" in self.output
        self.is_right = self.process.returncode == 0 and "ok bad=0" in self.output


def held(job):
    """Returns between which sizes a job alone holds: Spillway leaves less than a block of its limit unused, or keeps some ready."""
    if not job.under:
        return (min(job.blocks * BLOCK, job.hard // BLOCK * BLOCK),) * 2
    return min(job.blocks * BLOCK, job.soft // BLOCK * BLOCK), job.soft


def beyond(job):
    """Returns how many blocks a job under Spillway is refused, as the least and the most."""
    return (max(0, job.blocks - job.soft // BLOCK) if job.stays else 0,) * 2


def model(first, second, device):
    """Returns what may be true of the first one's being ended, and between which numbers the refusals of each lie."""
    least, most = held(first)
    refused = [beyond(first) if first.under else (first.blocks - least // BLOCK,) * 2]
    if second.under:
        wanted = held(second)
        borrows = not first.under and least > first.soft
        return {borrows and wanted[0] > device - least, borrows and min(second.blocks * BLOCK, wanted[1]) > device - least}, \
            refused + [beyond(second)]
    counts, ends = [], set()
    for used in (least, most):
        taken = count = 0
        gone = False
        for _ in range(second.blocks):
            if taken + BLOCK > second.hard:
                count += 1
                continue
            room = device - taken - (0 if gone else used)
            if room < BLOCK and taken + BLOCK <= second.soft and used > first.soft and not gone:
                gone, room = True, device - taken
            taken, count = (taken + BLOCK, count) if room >= BLOCK else (taken, count + 1)
        counts.append(count)
        ends.add(gone)
    return ends, refused + [(min(counts), max(counts))]


def play(number):
    """Plays one pair. Returns a line of what is wrong, or nothing, and what was counted."""
    dice = random.Random(seed * 100003 + number)
    device = 2 * dice.randint(24, 128)
    soft = 2 * dice.randint(4, device // 2 - 4)
    kind = dice.random()
    first = Job(dice, device, soft, kind < 0.8)
    second = Job(dice, device, 2 * dice.randint(4, (device - soft) // 2) if device - soft > 8 else device - soft,
                 kind < 0.65 or 0.8 <= kind < 0.9)
    top = f"{folder}/{number}"
    for name, job in ("first", first), ("second", second):
        os.makedirs(f"{top}/tree/{name}")
        for file, value in ("max", job.hard), ("min", job.soft):
            with open(f"{top}/tree/{name}/dmem.{file}", "w") as out:
                out.write(f"{REGION} {value * MIB}\n")
    for name in "gpu", "state", "node":
        os.makedirs(f"{top}/{name}", mode=0o700)
    # As `spillway run` has it: without the probe memory of cuMemCreate stays where it was made.
    probe = os.path.join(os.environ.get("SPILLWAY_STATE_DIR", ""), "driver-probe")
    if os.path.exists(probe):
        shutil.copy(probe, f"{top}/state")
    first.start("first", top, device)
    while not os.path.exists(f"{top}/first.ready") and first.process.poll() is None:
        time.sleep(0.01)
    second.start("second", top, device)
    second.end()
    open(f"{top}/end", "w").close()
    first.end()
    ends, refused = model(first, second, device)
    wrong = []
    if first.borrows and not second.under:  # its risk: it may be ended, or leave less room
        ends, refused = {False, True}, [refused[0], (0, second.blocks)]
    # The first one comes back from the host, within its soft limit, while the second one borrows.
    may_end = first.under and not second.under and min(second.blocks * BLOCK, second.hard) > second.soft
    if first.is_ended not in ends or (second.is_ended and not may_end):
        wrong.append(f"expected {'the first' if True in ends else 'none'} to be ended")
    for job, (least, most) in zip((first, second), refused):
        if job.is_ended:
            continue
        if not job.is_right:
            wrong.append("wrong bytes or a wrong end")
        if not least <= job.refused <= most:
            wrong.append(f"expected {least} to {most} refusals, got {job.refused}")
    stay = beyond(first) != (0, 0) or beyond(second) != (0, 0)
    kind = "one or both without" if not (first.under and second.under) else \
        "both under Spillway, memory beyond a soft limit cannot leave" if stay else "both under Spillway"
    text = ""
    if wrong:
        text = (f"pair {number} of seed {seed}, GPU of {device} MiB: {'; '.join(wrong)}\n  first: {first}\n{first.output}"
                f"  second: {second}\n{second.output}")
    return text, kind, first.is_ended + second.is_ended, first.refused + second.refused


with concurrent.futures.ThreadPoolExecutor(10) as pool:
    results = list(pool.map(play, range(pairs)))
failures = [r[0] for r in results if r[0]]
print("".join(failures), end="")
for kind in sorted({r[1] for r in results}):
    chosen = [r for r in results if r[1] == kind]
    print(f"{len(chosen)} pairs {kind}: {sum(r[2] for r in chosen)} ended, {sum(r[3] for r in chosen)} requests refused")
print(f"seed {seed}: {pairs} pairs, {len(failures)} not as expected")
sys.exit(bool(failures))
