"""The load generators, and the workloads: each measures one proxy once.

The `family` of a workload is what it sends: "http", "tcp" for any bytes over TLS, or "plain" for the same to an upstream
without TLS. One that is not `by_default` runs only when it is named.
"""
import json
import os
import re
import shutil
import subprocess
import time

import processes
from processes import BenchError
from proxies import GROUP, SUITE

HERE = os.path.dirname(os.path.abspath(__file__))

SCRIPT = r"""
if os.getenv("WRK_UPLOAD") then
  wrk.method = "POST"
  wrk.body = string.rep("u", 1048576)
end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('\nJSON {"requests":%d,"duration_us":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,' ..
    '"status":%d,"timeout":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d}\n', summary.requests, summary.duration, summary.bytes, e.connect,
    e.read, e.write, e.status, e.timeout, latency:percentile(50), latency:percentile(99),
    latency:percentile(99.9)))
end
"""


class Tools:
    """The load generators, compiled into the run's folder."""

    def __init__(self, folder, certificates, cpu):
        self.certificates, self.cpu = certificates, cpu
        self.shim = self._compile("wrkcert", f"{folder}/wrkcert.so", "-shared", "-fPIC", libraries=["ssl", "crypto"])
        self.tlsload = self._compile("tlsload", f"{folder}/tlsload", libraries=["ssl", "crypto"])
        self.tcpecho = self._compile("tcpecho", f"{folder}/tcpecho", libraries=["ssl", "crypto"])
        self.sigsuspend = self._compile("sigsuspend", f"{folder}/sigsuspend.so", "-shared", "-fPIC")
        self.script = f"{folder}/wrk.lua"
        self.message = f"{folder}/call"
        with open(self.message, "wb") as out:
            out.write(b"\0\0\0\0\x64" + b"c" * 100)
        with open(self.script, "w") as out:
            out.write(SCRIPT)

    @staticmethod
    def _compile(name, product, *flags, libraries=()):
        compiler = os.environ.get("CC") or shutil.which("cc") or "clang"
        argv = [compiler, "-O2", *flags, "-o", product, f"{HERE}/{name}.c", *(f"-l{each}" for each in libraries)]
        made = subprocess.run(argv, capture_output=True, text=True)
        if made.returncode:
            raise BenchError(f"{name}.c does not compile:\n{made.stderr[-2000:]}")
        return product

    def wrk(self, port, path, connections, seconds, uploads=False, shows_certificate=True):
        """One run of wrk: its figures, and the CPU seconds that it took itself."""
        env = {"LD_PRELOAD": self.shim, "WRKCERT_SUITE": SUITE, "WRKCERT_GROUP": GROUP}
        if shows_certificate:
            env |= {"WRKCERT_CHAIN": self.certificates.client_chain, "WRKCERT_KEY": self.certificates.client_key}
        if uploads:
            env["WRK_UPLOAD"] = "1"
        argv = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", self.script,
                f"https://127.0.0.1:{port}{path}"]
        process = processes.spawn(argv, self.cpu, env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            text = process.stdout.read().decode(errors="replace")
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            processes.stop(process)
        lines = [line for line in text.splitlines() if line.startswith("JSON ")]
        if process.returncode or not lines:
            raise BenchError("wrk failed:\n" + text[-2000:])
        return {**json.loads(lines[0][5:]), "cpu_s": usage.ru_utime + usage.ru_stime}

    def h2load(self, port, path, connections, streams, seconds, grpc=False):
        """One run of h2load: its figures, and the CPU seconds that it took itself."""
        env = {"LD_PRELOAD": self.shim, "WRKCERT_SUITE": SUITE, "WRKCERT_GROUP": GROUP,
               "WRKCERT_CHAIN": self.certificates.client_chain, "WRKCERT_KEY": self.certificates.client_key}
        argv = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", f"--duration={seconds}",
                f"https://127.0.0.1:{port}{path}"]
        if grpc:
            argv += ["-d", self.message, "-H", "content-type: application/grpc", "-H", "te: trailers"]
        process = processes.spawn(argv, self.cpu, env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            text = process.stdout.read().decode(errors="replace")
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            processes.stop(process)
        rate = re.search(r"finished in .*?, ([\d.]+) req/s", text)
        counts = re.search(r"requests: .*? (\d+) failed, (\d+) errored, (\d+) timeout", text)
        good = re.search(r"status codes: (\d+) 2xx", text)
        mean = re.search(r"time for request: +\S+ +\S+ +([\d.]+)(us|ms|s)", text)
        if process.returncode or not (rate and counts and good and mean) or "Application protocol: h2" not in text:
            raise BenchError("h2load failed:\n" + text[-2000:])
        if any(int(count) for count in counts.groups()) or not int(good[1]):
            raise BenchError(f"h2load counted {good[1]} responses and the faults {counts.groups()}")
        return {"requests": int(good[1]), "rate": float(rate[1]), "cpu_s": usage.ru_utime + usage.ru_stime,
                "mean_us": float(mean[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[mean[2]]}

    def tls(self, mode, port, shows_certificate=True, **arguments):
        """Starts tlsload and waits until it is ready."""
        arguments |= {"port": port, "suite": SUITE, "group": GROUP}
        if shows_certificate:
            arguments |= {"chain": self.certificates.client_chain, "key": self.certificates.client_key}
        argv = [self.tlsload, mode] + [f"{name}={value}" for name, value in arguments.items()]
        process = processes.spawn(argv, self.cpu, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if process.stdout.readline() != b"ready\n":
            processes.stop(process)
            raise BenchError(f"tlsload {mode} did not start")
        return process


class LoadErrors(BenchError):
    """What the load generator itself counted."""


def go(generator):
    """Lets tlsload take its next step; returns what it counted."""
    generator.stdin.write(b"go\n")
    generator.stdin.flush()
    line = generator.stdout.readline()
    if not line:
        raise BenchError(f"tlsload ended with status {generator.wait()}")
    result = json.loads(line)
    if result["errors"]:
        raise LoadErrors(f"tlsload counted {result['errors']} errors, the first: {result['first_error']}")
    return result


class Meter:
    """CPU time of the proxy, the upstream and the proxy's whole CPU between two moments."""

    def __init__(self, stage, proxy):
        self.stage, self.proxy = stage, proxy
        self.begin = self._read()

    def _read(self):
        return (time.monotonic(), processes.cpu_by_process(self.proxy.process.pid),
                processes.cpu_by_process(self.proxy.upstream.process.pid),
                processes.busy_seconds(self.stage.proxy_cpu))

    def stop(self, generator_seconds):
        """CPU seconds of the proxy, and how busy it, the load and other processes on its CPU were (1 is a CPU)."""
        wall, proxy, upstream, busy = self._read()
        seconds = wall - self.begin[0]
        used = processes.cpu_between(self.begin[1], proxy)
        load = processes.cpu_between(self.begin[2], upstream) + generator_seconds
        return used, {"proxy_busy": used / seconds, "load_busy": load / seconds,
                      "others_busy": max(0.0, (busy - self.begin[3] - used) / seconds)}


class Requests:
    """Requests over kept connections, by wrk; `scale` is how many units of its name a CPU second has."""

    family, by_default = "http", True

    def __init__(self, text, path, connections, counted, unit="µs a request", scale=1e6, size=0, uploads=False):
        self.text, self.path, self.connections, self.counted = text, path, connections, counted
        self.unit, self.scale, self.size, self.uploads = unit, scale, size, uploads

    def drive(self, stage, port, connections, seconds):
        result = stage.tools.wrk(port, self.path, connections, seconds, self.uploads)
        faults = {what: result[what] for what in ("connect", "read", "write", "status", "timeout") if result[what]}
        if faults:
            raise BenchError(f"wrk counted {result['requests']} responses and the faults {faults}")
        if result["bytes"] < result["requests"] * self.size:
            raise BenchError("responses were too short")
        return result

    def measure(self, stage, proxy):
        self.drive(stage, proxy.port, self.connections, 1)
        meter = Meter(stage, proxy)
        result = self.drive(stage, proxy.port, self.connections, stage.seconds)
        cpu, busy = meter.stop(result["cpu_s"])
        if not result["requests"]:
            raise BenchError("wrk got no response")
        return {"cost": cpu * self.scale / result["requests"], "rate": result["requests"] * 1e6 / result["duration_us"],
                "p50_us": result["p50_us"], "p99_us": result["p99_us"], "p999_us": result["p999_us"], **busy}

    def units(self, stage, port, seconds):
        """Runs a load that a proxy can bear under a tool; the number of its units."""
        return self.drive(stage, port, self.counted, seconds)["requests"]


class Streams:
    """Requests over HTTP/2, by h2load, which tells no percentiles: its mean stands for both."""

    unit, http2, family, by_default = "µs a request", True, "http", True

    def __init__(self, text, path, connections, streams, counted, grpc=False):
        self.text, self.path, self.connections, self.streams = text, path, connections, streams
        self.counted, self.grpc = counted, grpc

    def drive(self, stage, port, connections, seconds):
        return stage.tools.h2load(port, self.path, connections, self.streams, seconds, self.grpc)

    def measure(self, stage, proxy):
        self.drive(stage, proxy.port, self.connections, 1)
        meter = Meter(stage, proxy)
        result = self.drive(stage, proxy.port, self.connections, stage.seconds)
        cpu, busy = meter.stop(result["cpu_s"])
        return {"cost": cpu * 1e6 / result["requests"], "rate": result["rate"], "p50_us": result["mean_us"],
                "p99_us": result["mean_us"], **busy}

    def units(self, stage, port, seconds):
        return self.drive(stage, port, self.counted, seconds)["requests"]


class Handshakes:
    """Handshakes with both certificates, each with one request and the end; 16 at a time. `mode`: "handshake" for full
    ones, "resume" for those that resume the session of the one before. `rsa`: the proxy has an RSA key. `names`: so many
    server names take turns. Over TCP, the request is an echo, and so much is true of the upstream: each session has a new
    connection, whose handshake is a full one unless the mode is "resume" and the proxy resumes sessions there, too."""

    unit = "µs a handshake"

    def __init__(self, text, mode, rsa=False, names=0, family="http", by_default=True):
        self.text, self.mode, self.rsa, self.names = text, mode, rsa, names
        self.family, self.by_default, self.resumes = family, by_default, mode == "resume"

    def drive(self, stage, port, connections, seconds, meter=None):
        """What was counted and, with a meter, what it read."""
        generator = stage.tools.tls(self.mode, port, conns=connections, seconds=seconds, names=self.names,
                                    **echoed(self.family))
        try:
            before = processes.cpu_by_process(generator.pid)[generator.pid]
            meter = meter and meter()
            result = go(generator)
            read = meter and meter.stop(result["cpu_s"] - before)
        finally:
            processes.stop(generator)
        if not result["completed"] or result["resumed"] != (result["completed"] if self.mode == "resume" else 0):
            raise BenchError(f"{result['completed']} handshakes, of which {result['resumed']} were resumed")
        return result, read

    def measure(self, stage, proxy):
        self.drive(stage, proxy.port, 16, 1)
        result, (cpu, busy) = self.drive(stage, proxy.port, 16, stage.seconds, lambda: Meter(stage, proxy))
        return {"cost": cpu * 1e6 / result["completed"], "rate": result["completed"] / result["seconds"],
                "p50_us": result["p50_us"], "p99_us": result["p99_us"], **busy}

    def units(self, stage, port, seconds):
        return self.drive(stage, port, 4, seconds)[0]["completed"]


def echoed(family):
    """What tlsload is told when a request is a short echo."""
    return {} if family == "http" else {"echo": 16}


class Echoes:
    """Bytes that come back over connections that stay open, each connection one echo at a time. Its handshakes are over when
    the measurement begins. `scale` is how many units of its name a CPU second has."""

    def __init__(self, text, size, connections, counted, unit="µs an echo", scale=1e6, family="tcp", by_default=True):
        self.text, self.size, self.connections, self.counted = text, size, connections, counted
        self.unit, self.scale, self.family, self.by_default = unit, scale, family, by_default

    def drive(self, stage, port, connections, seconds, meter=None):
        """What was counted and, with a meter, what it read."""
        generator = stage.tools.tls("echo", port, conns=connections, seconds=seconds, echo=self.size)
        try:
            before = processes.cpu_by_process(generator.pid)[generator.pid]
            meter = meter and meter()
            result = go(generator)
            read = meter and meter.stop(result["cpu_s"] - before)
        finally:
            processes.stop(generator)
        if result["completed"] < connections:
            raise BenchError(f"{result['completed']} echoes over {connections} connections")
        return result, read

    def measure(self, stage, proxy):
        self.drive(stage, proxy.port, self.connections, 1)
        result, (cpu, busy) = self.drive(
            stage, proxy.port, self.connections, stage.seconds, lambda: Meter(stage, proxy))
        return {"cost": cpu * self.scale / result["completed"], "rate": result["completed"] / result["seconds"],
                "p50_us": result["p50_us"], "p99_us": result["p99_us"], **busy}

    def units(self, stage, port, seconds):
        return self.drive(stage, port, self.counted, seconds)[0]["completed"]


class Idle:
    """Memory of open connections. The kernel's buffers are not in it, nor are the pages of files: some seconds after its start,
    sallyport lets go of the code that only a start needs, which would count as if connections had freed it. `mode`: "idle" for
    those that are kept open after one request each, or one short echo over TCP; "silent" for those that have not sent a byte."""

    unit = "KiB a connection"

    def __init__(self, text, mode, family="http", by_default=True):
        self.text, self.mode, self.family, self.by_default = text, mode, family, by_default

    def measure(self, stage, proxy):
        count = stage.idle
        warm = stage.tools.tls("idle", proxy.port, count=8, conns=8, path="/1k", **echoed(self.family))
        try:
            go(warm)
        finally:
            processes.stop(warm)
        time.sleep(0.5)
        base = processes.memory_kib(proxy.process.pid)
        before = processes.memory_kib(proxy.process.pid, "Pss_Anon")
        generator = stage.tools.tls(self.mode, proxy.port, count=count, conns=64, path="/1k", **echoed(self.family))
        try:
            meter = Meter(stage, proxy)
            result = go(generator)
            _, busy = meter.stop(result["cpu_s"])
            if result["completed"] != count:
                raise BenchError(f"{result['completed']} of {count} connections were opened")
            time.sleep(5)  # sallyport lets go of a session's buffers once it has been silent for two seconds
            after = processes.memory_kib(proxy.process.pid, "Pss_Anon")
            go(generator)  # which looks whether all of them are still open
        finally:
            processes.stop(generator)
        return {"cost": (after - before) / count, "rate": result["completed"] / result["seconds"],
                "base_kib": base, **busy}


WORKLOADS = {
    "small": Requests("GET 1 KiB, 64 connections", "/1k", 64, 4, size=1 << 10),
    "latency": Requests("GET 1 KiB, 4 connections", "/1k", 4, 1, size=1 << 10),
    "bulk": Requests("GET 1 MiB, 8 connections", "/1m", 8, 2, "ms a MiB", 1e3, size=1 << 20),
    "upload": Requests("POST 1 MiB, 8 connections", "/upload", 8, 2, "ms a MiB", 1e3, uploads=True),
    "handshake": Handshakes("full mTLS handshake, one request, closed", "handshake"),
    "rsa": Handshakes("full handshake, the server's key RSA-2048", "handshake", rsa=True),
    "resume": Handshakes("resumed TLS 1.3 session, one request, closed", "resume"),
    "h2small": Streams("HTTP/2 GET 1 KiB, 16 connections of 8 streams", "/1k", 16, 8, 2),
    "grpc": Streams("a unary call of gRPC, 100 bytes each way, 16 connections of 8 streams", "/grpc.Bench/Unary", 16, 8,
                    2, grpc=True),
    "idle": Idle("memory of a kept connection", "idle"),
    "silent": Idle("memory of a connection that has not sent a byte", "silent"),
    "tcp": Echoes("TCP, echo of 1 KiB, 64 connections", 1 << 10, 64, 4),
    "tcpbulk": Echoes("TCP, 1 MiB each way, 4 connections", 1 << 20, 4, 2, "ms a MiB each way", 1e3),
    "tcphandshake": Handshakes("TCP, full mTLS handshake on both sides, echo of 16 bytes, closed", "handshake", family="tcp"),
    "tcpidle": Idle("TCP, memory of a session that is silent after an echo", "idle", family="tcp"),
    "tcpresume": Handshakes("TCP, resumed TLS 1.3 session, upstream that gives tickets, echo of 16 bytes, closed", "resume",
                            family="tcp", by_default=False),
    "tcpplain": Echoes("as tcp, upstream without TLS", 1 << 10, 64, 4, family="plain", by_default=False),
    "tcpplainbulk": Echoes("as tcpbulk, upstream without TLS", 1 << 20, 4, 2, "ms a MiB each way", 1e3, family="plain",
                           by_default=False),
    "tcpplainhandshake": Handshakes("as tcphandshake, upstream without TLS", "handshake", family="plain", by_default=False),
    "tcpplainidle": Idle("as tcpidle, upstream without TLS", "idle", family="plain", by_default=False),
}
# What a proxy of each family is configured for before it is checked.
SIMPLEST = {"http": WORKLOADS["small"], "tcp": WORKLOADS["tcp"], "plain": WORKLOADS["tcpplain"]}
