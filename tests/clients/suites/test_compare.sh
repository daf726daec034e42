#!/bin/sh
# SPDX-License-Identifier: MIT
# suites/compare and its plugin, with a stand-in for pytest and one for the tool. Tests of a suite
# end the same way or otherwise under Spillway. Tests fail, die, hang or are skipped.
set -eu
. tests/e2e/lib.sh
suites=tests/clients/suites
mkdir -p "$scratch/suite/deep" "$scratch/hanging" "$scratch/stub"

# A test file has a test a line: its name, the phases that do not pass directly, and those as a job.
# "-" is none; "dies" ends the process within the test, "hangs" never ends it, "waits" fails where a
# process or an answer that takes 0.2 s may take 0.1 s.
cat >"$scratch/suite/test_many.py" <<'END'
same - -
worse - call=failed
better call=failed -
known call=failed call=failed
unknown call=failed call=failed
setup setup=failed setup=failed
teardown - teardown=failed
skips setup=skipped setup=skipped
kind[of-2] call=failed call=failed
mended - -
left_out call=failed -
waits waits waits
dies - dies
END
echo 'one hangs hangs' >"$scratch/hanging/test_hangs.py"
echo 'one - -' >"$scratch/suite/deep/test_one.py"
echo broken >"$scratch/suite/test_broken.py"
echo 'one call=failed -' >"$scratch/suite/test_measures.py"
cat >"$scratch/stub/pytest.py" <<'END'
"""python -m pytest ... -p outcomes ... FILE: reports the tests of FILE to the plugin, as pytest does."""
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import types


def fixture(**_):
    return lambda function: function


if __name__ == "__main__":
    sys.modules["pytest"] = sys.modules["__main__"]
    import outcomes

    arguments = sys.argv[1:]
    file = arguments[-1]
    assert arguments[arguments.index("outcomes") - 1] == "-p", arguments
    # A checkout has a pytest.ini above the suite, from whose folder the names would begin.
    assert "--rootdir=." in arguments, arguments
    left_out = [word for before, word in zip(arguments, arguments[1:]) if before == "--deselect"]
    status = 0
    for line in open(file, encoding="utf-8"):
        name, *phases = line.split()
        if not phases:
            sys.exit(2)
        test, phases = f"{file}::{name}", phases["JOB" in os.environ]
        if test in left_out:
            continue
        outcomes.pytest_runtest_logstart(test)
        if phases == "dies":
            os._exit(139)
        while phases == "hangs":
            time.sleep(1)
        if phases == "waits":
            subprocess.run(["sleep", "0.2"], timeout=0.1, check=True)
            answers = multiprocessing.Queue()
            threading.Timer(0.2, answers.put, "a").start()
            answers.get(timeout=0.1)
        ends = dict([phases.split("=")] if "=" in phases else [])
        for when in ("setup", "call", "teardown"):
            outcome = ends.get(when, "passed")
            outcomes.pytest_runtest_logreport(
                types.SimpleNamespace(when=when, outcome=outcome, nodeid=test))
            if outcome == "failed":
                status = 1
                print(f"FAILED {test} - AssertionError in {name}")
            if when == "setup" and outcome != "passed":
                break
    sys.exit(status)
END
cat >"$scratch/tool" <<'END'
#!/bin/sh
[ "$1 $2 $3 $4" = "run --quiet --name suite" ] || exit 125
shift 4
JOB=1 exec "$@"
END
chmod +x "$scratch/tool"
cat >"$scratch/known" <<'END'
# Said once
# for two.
mine test_many.py::known
mine test_many.py::kind[of-*]

# It was mended.
mine test_many.py::mended
# Another suite's.
other test_many.py::unknown
# Left out: it measures.
mine test_measures.py
# Left out: one of many.
mine test_many.py::left_out
END
export KNOWN_FAILURES="$scratch/known" PYTHON=python3 PYTHONPATH="$scratch/stub" SPILLWAY="$scratch/tool"
export PYTHONDONTWRITEBYTECODE=1

! $suites/compare mine "$scratch/suite" >"$scratch/said" 2>&1 || fail "well: $(cat "$scratch/said")"
same "what is not well" "test_broken.py: failed, without a reason in known_failures.txt
test_many.py::better: failed directly, passed under Spillway
test_many.py::dies: passed directly, died under Spillway
test_many.py::setup: failed, without a reason in known_failures.txt
test_many.py::teardown: passed directly, failed under Spillway
test_many.py::unknown: failed, without a reason in known_failures.txt
test_many.py::worse: passed directly, failed under Spillway
test_many.py::mended: in known_failures.txt, and does not fail
mine: 6 failed, 7 passed, 1 skipped; 7 unexplained or not the same" "$(grep -v '^    | ' "$scratch/said")"
has "the words of one" "$(cat "$scratch/said")" "known_failures.txt
    | FAILED test_many.py::unknown - AssertionError in unknown
test_many.py::worse"

# One file, and all that is wrong in it has a reason.
FILES=deep $suites/compare mine "$scratch/suite" >"$scratch/said" 2>&1 || fail "$(cat "$scratch/said")"
same "one file" "mine: 1 passed; 0 unexplained or not the same" "$(cat "$scratch/said")"
! FILES=none $suites/compare mine "$scratch/suite" >"$scratch/said" 2>&1 || fail "no test is well"

# A process that hangs is ended.
! TEST_PATIENCE=1 $suites/compare mine "$scratch/hanging" >"$scratch/said" 2>&1 || fail "hanging is well"
has "a process that hangs" "$(cat "$scratch/said")" "died"
