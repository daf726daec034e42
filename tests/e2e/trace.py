# SPDX-License-Identifier: MIT
"""Checks that Perfetto can show a trace: trace.read(FILE) gives its tracks, or fails."""
import collections
import json


def read(path):
    """{(process name, track name): [event...]} of spans and moments, {(process name, counter): [event...]}."""
    with open(path) as file:
        document = json.load(file)
    assert isinstance(document["traceEvents"], list)
    processes, threads = {}, {}
    tracks, counters = collections.defaultdict(list), collections.defaultdict(list)
    for event in document["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["name"], event
        if event["ph"] == "M":
            if event["name"] == "process_name":
                assert event["pid"] not in processes, event
                processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                key = event["pid"], event["tid"]
                assert key not in threads, event
                threads[key] = event["args"]["name"]
            else:
                assert event["name"] in ("process_sort_index", "thread_sort_index"), event
                assert isinstance(event["args"]["sort_index"], int)
            continue
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0, event
        assert isinstance(event["args"], dict), event
        if event["ph"] == "C":
            assert event["args"] and all(isinstance(v, (int, float)) for v in event["args"].values()), event
            counters[event["pid"], event["name"]].append(event)
            continue
        if event["ph"] == "X":
            assert isinstance(event["dur"], (int, float)) and event["dur"] >= 0, event
        else:
            assert event["ph"] == "i" and event["s"] == "t", event
        tracks[event["pid"], event["tid"]].append(event)
    named = collections.defaultdict(list)
    for (pid, tid), events in tracks.items():
        # Nothing of one track overlaps, so that it is drawn in one row; thousandths of a
        # microsecond are whole.
        spans = sorted((round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in events if e["ph"] == "X")
        for (begin, duration), (after, _) in zip(spans, spans[1:]):
            assert begin + duration <= after, (threads[pid, tid], begin, duration, after)
        assert len({e["ph"] for e in events}) == 1
        named[processes[pid], threads[pid, tid]] += events
    return named, {(processes[pid], name): events for (pid, name), events in counters.items()}
