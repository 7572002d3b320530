"""Starts processes on one CPU, reads what their trees use, and ends them by process id."""
import ctypes
import glob
import os
import random
import resource
import signal
import socket
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)
niceness = 0  # of every process that spawn() starts


class BenchError(Exception):
    """A result that must not be reported: the run ends with an error."""


def raise_file_limit(wanted=100_000):
    """Raises the limit of open files, which children inherit, as far as allowed. Returns it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit in ((wanted, max(wanted, hard)), (min(wanted, hard), hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            break
        except (ValueError, OSError):
            continue
    return file_limit()


def file_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def free_port():
    """A free TCP port of 127.0.0.1, below the range from which outgoing connections take theirs."""
    while True:
        port = random.randint(15_000, 30_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def spawn(argv, cpu, env=None, log=None, **more):
    """Starts argv on one CPU, or on a set of them, in a session of its own: Ctrl-C reaches only the bench, which then ends its children.

    The kernel sends the child SIGTERM should the bench die without doing so.
    """
    def in_child():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        os.sched_setaffinity(0, cpu if isinstance(cpu, set) else {cpu})
        if niceness:
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
            try:
                # Where the kernel groups processes by session, niceness counts within one's own session only.
                with open("/proc/self/autogroup", "w") as group:
                    group.write(str(niceness))
            except OSError:
                pass

    if log:
        with open(log, "ab") as out:
            return spawn(argv, cpu, env, stdout=out, stderr=out, **more)
    return subprocess.Popen(
        argv, env={**os.environ, **(env or {})}, preexec_fn=in_child, start_new_session=True, **more)


def tree(pid):
    """The process and all its descendants."""
    found, queue = set(), [pid]
    while queue:
        process = queue.pop()
        found.add(process)
        for path in glob.glob(f"/proc/{process}/task/*/children"):
            try:
                with open(path) as file:
                    queue += [int(word) for word in file.read().split()]
            except OSError:
                pass
    return sorted(found)


def cpu_by_process(pid):
    """User and system time of each process of the tree, in seconds.

    The kernel's CPU clock of a process holds the time of ended threads too, in nanoseconds; /proc has 10 ms steps.
    """
    return {process: time.clock_gettime((~process << 3) | 2) for process in tree(pid)}


def cpu_between(before, after):
    """CPU seconds between two readings of the same tree."""
    if set(before) - set(after):
        raise BenchError("a process of the proxy or the upstream ended during the measurement")
    return sum(seconds - before.get(process, 0) for process, seconds in after.items())


def memory_kib(pid, kind="Pss"):
    """The tree's memory: a page that several processes share counts once. `kind`: "Pss_Anon" is without the pages of files,
    whose share falls when another process maps the same libraries."""
    total = 0
    for process in tree(pid):
        with open(f"/proc/{process}/smaps_rollup") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith(kind + ":"))
    return total


def busy_seconds(cpu):
    """Seconds since boot in which this CPU was not idle, whoever used it."""
    with open("/proc/stat") as file:
        for line in file:
            if line.startswith(f"cpu{cpu} "):
                times = [int(word) for word in line.split()[1:9]]
                return (sum(times) - times[3] - times[4]) / TICK
    raise BenchError(f"/proc/stat has no cpu{cpu}")


def wait_for_port(port, process, log, seconds=30):
    """Waits until somebody listens on the port."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    with open(log, errors="replace") as file:
        raise BenchError(f"{process.args[0]} does not listen on its port:\n{file.read()[-2000:]}")


def stop(process, grace=4):
    """Ends a process that spawn() started, and its descendants."""
    if process is None:
        return
    descendants = [pid for pid in tree(process.pid) if pid != process.pid] if process.poll() is None else []
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    end = time.monotonic() + 1
    for pid in descendants:
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            time.sleep(0.01)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
