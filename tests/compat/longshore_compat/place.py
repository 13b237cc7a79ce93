"""Where a suite's programs run: a network namespace of their own, with an engine in it
unless the stack under test is the kernel's.

Owns the namespace, the engines' processes and their files, and takes all of it down
again, with every process that is left in the namespace. Also owns the proof of who
carried the connections: the kernel's counters of that namespace, and the engines' own.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

ENGINE = """
port = "tap:{tap}"
address = ["10.78.0.{host}/24", "fd78::{host}/64"]
gateway = ["10.78.0.1", "fd78::1"]
socket = "{socket}"
loopback = "engine"
drain_seconds = 1
"""

TRANSLATION = """
table inet translation {
  chain in {
    type nat hook prerouting priority dstnat
    ip daddr 10.99.0.2 dnat ip to 10.78.0.2
    ip6 daddr fd99::2 dnat ip6 to fd78::2
  }
  chain out {
    type nat hook postrouting priority srcnat
    ct status dnat ip saddr 10.78.0.2 snat ip to 10.99.0.2
    ct status dnat ip6 saddr fd78::2 snat ip6 to fd99::2
  }
}
"""

# What `ip netns exec` puts over /etc in a namespace. Nobody answers there, on any stack, and
# that is told at once: a nameserver of the machine's would be asked until its time is over
# where there is a route, and not at all where there is none.
OVER_ETC = pathlib.Path("/etc/netns")
RESOLVER = "nameserver 127.0.0.1\n"

# How long an engine may take until its socket is there, in seconds; the machine may be busy.
TIMEOUT = 30


@dataclass
class Outcome:
    """How a program ended: its status (negative for a signal), or that its time was over."""

    status: int
    timed_out: bool
    output: str


@dataclass
class Carried:
    """Connections and datagrams that the kernel of a namespace and its engines have seen."""

    kernel_active: int = 0
    kernel_passive: int = 0
    engine_active: int = 0
    engine_passive: int = 0
    engine_transfers: int = 0
    left_over: int = 0
    drops: dict = field(default_factory=dict)


class Place:
    """A namespace, with `engines` engines in it, each on a TAP; two are joined by a bridge.

    The first engine has 10.78.0.2, the second 10.78.0.3. Loopback is the engine's. With
    `reflected`, what the first sends to 10.99.0.2 comes back to it.
    """

    counter = 0

    def __init__(self, longshore, engines, reflected=False):
        Place.counter += 1
        self.name = f"compat-{os.getpid()}-{Place.counter}"
        self.longshore = longshore
        self.reflected = reflected
        self.files = tempfile.TemporaryDirectory(prefix=f"{self.name}-", ignore_cleanup_errors=True)
        self.directory = pathlib.Path(self.files.name)
        self.directory.chmod(0o777)
        self.engines = []
        self.logs = []
        run("ip", "netns", "add", self.name)
        self.over_etc = OVER_ETC / self.name
        try:
            self.over_etc.mkdir(parents=True)
            (self.over_etc / "resolv.conf").write_text(RESOLVER)
            run("ip", "-n", self.name, "link", "set", "lo", "up")
            if engines:
                self._wire(engines)
            if reflected:
                self._reflect()
            for number in range(engines):
                self._start_engine(number)
        except BaseException:
            self.close()
            raise

    def _wire(self, engines):
        """Makes a TAP for each engine; several are ports of a bridge. The kernel has 10.78.0.1."""
        # Addresses of the kernel's are there at once.
        run(*self.inside(["sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0"]))
        kernel = "tap0"
        if engines > 1:
            kernel = "bridge0"
            run("ip", "-n", self.name, "link", "add", kernel, "type", "bridge")
        for number in range(engines):
            tap = f"tap{number}"
            run("ip", "-n", self.name, "tuntap", "add", tap, "mode", "tap", "vnet_hdr")
            if engines > 1:
                run("ip", "-n", self.name, "link", "set", tap, "master", kernel)
            run("ip", "-n", self.name, "link", "set", tap, "up")
        run("ip", "-n", self.name, "link", "set", kernel, "up")
        run("ip", "-n", self.name, "addr", "add", "10.78.0.1/24", "dev", kernel)
        run("ip", "-n", self.name, "addr", "add", "fd78::1/64", "dev", kernel, "nodad")

    def _reflect(self):
        """Makes the first engine reachable for itself: what it sends to 10.99.0.2 comes back to it,
        and from there, as if another host had sent it."""
        for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            run(*self.inside(["sysctl", "-qw", f"{key}=1"]))
        for key in ("send_redirects", "rp_filter"):
            for which in ("all", "tap0"):
                run(*self.inside(["sysctl", "-qw", f"net.ipv4.conf.{which}.{key}=0"]))
        run(*self.inside(["nft", TRANSLATION]))

    def _start_engine(self, number):
        socket = self.directory / f"engine{number}.sock"
        config = self.directory / f"engine{number}.toml"
        config.write_text(ENGINE.format(tap=f"tap{number}", host=number + 2, socket=socket))
        log = self.directory / f"engine{number}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.inside([self.longshore, "engine", "--config", config]),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.engines.append((process, socket))
        self.logs.append(log)
        end = time.monotonic() + TIMEOUT
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the engine did not start: {log.read_text()}")
            time.sleep(0.02)

    def inside(self, command):
        """The command that runs `command` in this namespace."""
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def start(self, command, *, output, cwd=None, env=None, user=None, engine=0):
        """Starts a program on this place's stack; its output goes to the open file `output`."""
        if self.engines:
            command = [self.longshore, "run", "--engine", self.engines[engine][1], "--", *command]
        if user:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        return subprocess.Popen(
            self.inside(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd or self.directory,
            env={**os.environ, "TMPDIR": str(self.directory), **(env or {})},
            start_new_session=True,
        )

    def run(self, command, limit, **how):
        """Runs a program to its end, or to that of its `limit` in seconds."""
        log = self.directory / "output"
        with log.open("wb") as output:
            process = self.start(command, output=output, **how)
            try:
                status, late = process.wait(limit), False
            except subprocess.TimeoutExpired:
                self.kill_programs()
                status, late = process.wait(), True
        return Outcome(status, late, log.read_text(errors="replace"))

    def listening(self, server, engine=0):
        """Waits until the server has a socket on this engine, or on the kernel; whether it has."""
        if self.engines:
            command = [self.longshore, "ss", "--json", "--engine", self.engines[engine][1]]
        else:
            command = self.inside(["ss", "-Hltun"])
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end and server.poll() is None:
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if json.loads(said or "[{}]")[0].get("sockets") if self.engines else said.strip():
                return True
            time.sleep(0.05)
        return False

    def kill_programs(self):
        """Ends every process in the namespace but the engines."""
        engines = {process.pid for process, _ in self.engines}
        for _ in range(50):
            pids = subprocess.run(
                ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False
            ).stdout.split()
            left = [int(pid) for pid in pids if int(pid) not in engines]
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)

    def carried(self):
        """Who has carried what so far. Counts of the engines are summed."""
        said = subprocess.run(
            self.inside(["cat", "/proc/net/snmp"]), capture_output=True, text=True, check=True
        ).stdout
        tcp = snmp(said, "Tcp")
        carried = Carried(tcp["ActiveOpens"], tcp["PassiveOpens"])
        for number in range(len(self.engines)):
            engine = self.stat(number)
            carried.engine_active += engine["tcp"]["active_opens"]
            carried.engine_passive += engine["tcp"]["passive_opens"]
            carried.engine_transfers += engine["crossings"]["to_adapter"]["transfers"]
            carried.left_over += len(engine["sessions"])
            for name, count in engine["drops"].items():
                if count:
                    carried.drops[name] = carried.drops.get(name, 0) + count
        return carried

    def stat(self, number):
        """What an engine counts, when its programs have left it or should have."""
        process, socket = self.engines[number]
        end = time.monotonic() + TIMEOUT
        while True:
            said = subprocess.run(
                [self.longshore, "stat", "--json", "--engine", socket],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if said.returncode != 0:
                raise RuntimeError(f"engine {process.pid} does not answer: {said.stderr}")
            (engine,) = json.loads(said.stdout)
            if not engine["sessions"] or time.monotonic() > end:
                return engine
            time.sleep(0.05)

    def engines_gone(self):
        """What engines that have ended by themselves had to say; empty if all are there."""
        return "".join(
            log.read_text(errors="replace")
            for (process, _), log in zip(self.engines, self.logs, strict=False)
            if process.poll() is not None
        )

    def close(self):
        """Takes everything down."""
        self.kill_programs()
        for process, _ in self.engines:
            process.terminate()
        for process, _ in self.engines:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        shutil.rmtree(self.over_etc, ignore_errors=True)
        self.files.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def run(*command):
    """Runs a command that has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def snmp(text, protocol):
    """The counters of a protocol in /proc/net/snmp: a line of names, then one of numbers."""
    names, numbers = [line.split()[1:] for line in text.splitlines() if line.startswith(protocol + ":")]
    return dict(zip(names, map(int, numbers), strict=True))
