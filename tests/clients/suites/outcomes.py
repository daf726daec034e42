# SPDX-License-Identifier: MIT
"""A plugin of pytest (-p outcomes): appends "OUTCOME TEST" to the file OUTCOMES names, at each end of a
test, and "begun TEST" before it. So a process that dies leaves the test that it died in."""
import os

import pytest


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
