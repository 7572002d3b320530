"""What a unit of work costs in counts, which repeat whatever else the machine does: instructions and system calls.

Each is counted over a short load and over a longer one: what the second has more, by the units that it has more. The
handshakes of kept connections, which both have, are not in it.
"""
import glob
import os
import re
import signal
import subprocess
import time

import processes
from processes import BenchError
from proxies import Proxy


# Of callgrind_annotate: a count, a share, a function, and the library or program that it is in.
LINE = r"^\s*([\d,]+) \([^)]*\)\s+(.*?)(?: \[([^\]]*)\])?$"


def system_calls(stage, name, workload):
    """System calls a unit, by name (strace)."""
    folder = stage.new_folder("strace")
    with Proxy(stage, name, workload=workload) as proxy:
        workload.units(stage, proxy.port, 1)
        return a_unit([traced(stage, proxy, workload, f"{folder}/{seconds}", seconds) for seconds in (1, 4)])


def traced(stage, proxy, workload, out, seconds):
    """The load's units, and the calls by name."""
    pids = [word for pid in processes.tree(proxy.process.pid) for word in ("-p", str(pid))]
    tracer = processes.spawn(["strace", "-f", "-c", "-q", "-o", out, *pids], stage.load_cpu, log=out + ".log")
    try:
        time.sleep(0.7)
        units = workload.units(stage, proxy.port, seconds)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)
    finally:
        processes.stop(tracer)
    counts = {}
    with open(out) as file:
        for line in file:
            found = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line.rstrip())
            if found and found[2] != "total":
                counts[found[2]] = int(found[1])
    if not counts:
        with open(out + ".log", errors="replace") as file:
            raise BenchError("strace counted nothing: " + file.read()[-500:])
    return units, counts


def instructions(stage, name, workload):
    """User instructions a unit, by the library or program that they are in (callgrind)."""
    out = stage.new_folder("callgrind") + "/out"
    tool = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--instr-atstart=no",
            f"--callgrind-out-file={out}.%p"]
    with Proxy(stage, name, tool=tool, env={"LD_PRELOAD": stage.tools.sigsuspend},
               workload=workload) as proxy:
        workload.units(stage, proxy.port, 2)
        observed = processes.tree(proxy.process.pid)
        control(observed, "--instr=on")
        short = workload.units(stage, proxy.port, 4)
        # A dump while instructions are counted makes the next one wrong.
        control(observed, "--instr=off", "--dump", "--instr=on")
        longer = workload.units(stage, proxy.port, 14)
        control(observed, "--instr=off")
    # The first dump is out.PID.1; the process writes out.PID when it ends.
    first = glob.glob(out + ".*.1")
    second = [path.removesuffix(".1") for path in first]
    return a_unit([(short, by_place(first)), (longer, by_place(second))])


def control(pids, *commands):
    for command in commands:
        for pid in pids:
            subprocess.run(["callgrind_control", command, str(pid)], capture_output=True)


def by_place(paths):
    """Instructions by library or program, in callgrind's files."""
    places = {}
    for path in paths:
        text = subprocess.run(["callgrind_annotate", "--threshold=100", path], capture_output=True).stdout
        for found in re.finditer(LINE, text.decode(errors="replace"), re.M):
            # Left out: sums, and lines of calls, whose cost is that of who is called.
            if re.search(r"PROGRAM TOTALS|events annotated| \([\d,]+x\)$", found[2]):
                continue
            place = os.path.basename(found[3] or "elsewhere")
            places[place] = places.get(place, 0) + int(found[1].replace(",", ""))
    if not places:
        raise BenchError("callgrind counted nothing")
    return places


def a_unit(loads):
    """Of two loads as (units, counts by name): the counts of a unit, largest first."""
    (fewer, first), (more, second) = loads
    if more <= fewer:
        raise BenchError(f"a longer load had no more units: {fewer}, then {more}")
    counts = {name: (count - first.get(name, 0)) / (more - fewer) for name, count in second.items()}
    return dict(sorted(counts.items(), key=lambda each: -each[1]))


def count(stage, name, workload):
    calls = system_calls(stage, name, workload)
    places = instructions(stage, name, workload)
    return {"system_calls": sum(calls.values()), "by_call": calls,
            "instructions": sum(places.values()), "by_library": places}
