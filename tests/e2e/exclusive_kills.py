#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""exclusive_kills.py SECONDS SEED BOUND SCRATCH SPILLWAY PROGRAM: two jobs with exclusive turns, of
two processes each. One process after the other is killed or stopped at a random moment, and started
anew. A job with a process that can run launches something every BOUND seconds. Prints the kills and
stops, and how long a job stood still at most."""

import json
import os
import random
import signal
import subprocess
import sys
import time

seconds, seed, bound, scratch, spillway, program = sys.argv[1:]
dice = random.Random(int(seed))
jobs = ("left", "right")
counts = {"started": 0, "killed": 0, "stopped": 0, "ended": 0}
longest = {job: 0.0 for job in jobs}


class Process:
    def __init__(self, job):
        counts["started"] += 1
        self.job = job
        self.until = None  # when it is stopped: until then
        self.log = open(f"{scratch}/{job}.errors", "a")
        env = dict(os.environ, SPILLWAY_JOB=job, LD_PRELOAD=os.environ["KILLS_PRELOAD"])
        mode = dice.choice(("one", "four", "threads"))
        self.child = subprocess.Popen(
            [program, "--mode", mode, "--mib", str(dice.choice((8, 24, 32))), "--until", f"{scratch}/end"],
            env=env, stdout=subprocess.DEVNULL, stderr=self.log)

    def is_running(self):
        return self.until is None and self.child.poll() is None

    def kill(self):
        counts["killed"] += 1
        self.child.kill()
        self.child.wait()


def launches(job):
    out = subprocess.run([spillway, "stat", job, "--json"], capture_output=True, text=True).stdout
    return sum(device["launches"] + device["graph_launches"] for device in json.loads(out)["devices"]) if out else None


processes = [Process(job) for job in jobs for _ in range(2)]
began = time.monotonic()
moved = {job: began for job in jobs}
seen = {job: None for job in jobs}
hits_at = began + dice.uniform(0.2, 2)
try:
    while time.monotonic() < began + float(seconds):
        now = time.monotonic()
        for process in processes:
            if process.until is not None and now >= process.until:
                process.until = None
                if dice.random() < 0.5:
                    process.child.send_signal(signal.SIGCONT)
                else:
                    process.kill()
        for i, process in enumerate(processes):
            code = process.child.poll()
            if code is not None:
                assert code == -signal.SIGKILL, f"{process.job}: status {code}: " + open(f"{scratch}/{process.job}.errors").read()[-2000:]
                processes[i] = Process(process.job)
        if now >= hits_at:
            victim = dice.choice([p for p in processes if p.is_running()] or processes)
            if victim.is_running() and dice.random() < 0.4:
                counts["stopped"] += 1
                victim.child.send_signal(signal.SIGSTOP)
                victim.until = now + (100 if dice.random() < 0.02 else dice.uniform(0.1, 8))
            elif victim.child.poll() is None:
                victim.until = None
                victim.kill()
            hits_at = now + dice.uniform(0.2, 3)
        for job in jobs:
            count = launches(job)
            now = time.monotonic()
            if count != seen[job] or not any(p.is_running() for p in processes if p.job == job):
                seen[job], moved[job] = count, now
            longest[job] = max(longest[job], now - moved[job])
            if longest[job] > float(bound):
                for each in jobs:
                    subprocess.run([spillway, "stat", each])
                sys.exit(f"{job} stands still for {longest[job]:.1f} s")
        time.sleep(0.05)
finally:
    for process in processes:
        if process.child.poll() is None:
            process.child.kill()
            process.child.wait()
print(f"seed={seed} seconds={seconds} started={counts['started']} killed={counts['killed']} stopped={counts['stopped']} "
      f"longest_left={longest['left']:.1f} longest_right={longest['right']:.1f}")
