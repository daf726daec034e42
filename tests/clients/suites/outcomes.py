# SPDX-License-Identifier: MIT
"""A plugin of pytest (-p outcomes): appends "OUTCOME TEST" to the file OUTCOMES names, at each end of a
test, and "begun TEST" before it. So a process that dies leaves the test that it died in.

A suite's own time limits for a process that it starts are for an idle machine. On a busy one they
would end tests in one of the two runs alone. They are ten times as long here. For example,
numba-cuda waits 60 s for a process that takes 10 s alone."""
import concurrent.futures
import multiprocessing.process
import multiprocessing.queues
import multiprocessing.synchronize
import os
import subprocess

import pytest


def lengthen(owner, name, place):
    """The method's argument `timeout`, which is its argument number `place`, is ten times as long."""
    method = getattr(owner, name)

    def longer(self, *arguments, **options):
        arguments = list(arguments)
        if len(arguments) > place and arguments[place] is not None:
            arguments[place] *= 10
        if options.get("timeout") is not None:
            options["timeout"] *= 10
        return method(self, *arguments, **options)

    setattr(owner, name, longer)


# communicate() calls wait(), where its limit grows again. A process that hangs is compare's to end.
lengthen(subprocess.Popen, "communicate", 1)
lengthen(subprocess.Popen, "wait", 0)
lengthen(multiprocessing.process.BaseProcess, "join", 0)
lengthen(multiprocessing.queues.Queue, "get", 1)
lengthen(multiprocessing.synchronize.Event, "wait", 0)
lengthen(concurrent.futures.Future, "result", 0)


def note(word, test):
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(f"{word} {test}\n")


def pytest_runtest_logstart(nodeid):
    note("begun", nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        note(report.outcome, report.nodeid)


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """numba-cuda's tests want it: their conftest.py, which the wheel lacks, has an option for it."""
    setattr(request.cls, "_dump_failed_filechecks", False)
