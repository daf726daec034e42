#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""schedule.py JOB PEAK_KIB PROGRAM...: runs PROGRAM as JOB and changes its limit at random meanwhile.

From a seed come a list of limits between an eighth and five quarters of PEAK_KIB, pauses, evictions
and resumes, and the time before each. SEED (environment) repeats a schedule; which of the program's
steps a change meets depends on the machine. Prints the seed and the number of changes; the exit
status is the program's, or 1 when the tool refuses a change while the program runs.

The tool waits for each change for two minutes without progress. Queued work ends first, which takes
more than its default of ten seconds on a busy machine.

Environment: SPILLWAY names the tool. TOTAL_KIB is the memory that the job has at least (limit and
host together), OPTIONS holds more options of `spillway run`.
"""
import os
import random
import subprocess
import sys


def main():
    job, peak, program = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    tool = os.environ.get("SPILLWAY", "spillway")
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 31))
    dice = random.Random(seed)

    def some_limit():
        return max(dice.randrange(peak // 8, peak * 5 // 4), 1)

    first = some_limit()
    # With the lowest limit, too: a change may come before the program asks for the total.
    on_host = int(os.environ.get("TOTAL_KIB", 1536 << 10)) - max(peak // 8, 1)
    running = subprocess.Popen(
        [tool, "run", "--name", job, "--memory", f"{first}KiB", "--host-memory", f"{on_host}KiB",
         *os.environ.get("OPTIONS", "").split(), *program])
    done, refused, paused = [], [], False
    while True:
        try:
            running.wait(dice.uniform(0.02, 0.4))
            break
        except subprocess.TimeoutExpired:
            pass
        choice = dice.random()
        if paused and choice < 0.7:
            change, paused = ["resume", job], False
        elif choice < 0.15 and not paused:
            change, paused = ["pause", job], True
        elif choice < 0.3 and not paused:
            change, paused = ["pause", job, "--evict"], True
        else:
            change = ["set", job, "--memory", f"{some_limit()}KiB"]
        asked = subprocess.run([tool, *change, "--timeout", "120"], capture_output=True, text=True,
                               check=False)
        if asked.returncode == 0:
            done.append(change)
        elif done and "has ended" in asked.stderr:  # done with the GPU, and about to exit
            running.wait()
        elif done:  # before the first one the job may not be there yet
            refused.append(f"{' '.join(change)}: {asked.stderr.strip()}")
    kinds = {kind: sum(kind in change for change in done)
             for kind in ("set", "pause", "--evict", "resume")}
    print(f"{job}: seed={seed} first={first}KiB " +
          " ".join(f"{kind.strip('-')}={count}" for kind, count in kinds.items()), flush=True)
    for line in refused:
        print(f"refused: {line}")
    sys.exit(running.returncode or bool(refused))


if __name__ == "__main__":
    main()
