"""The Linux Test Project's tests of socket calls, poll, select and epoll, and its netstress.

LTP is no package of Debian's, and is not built here: a path to an installed one is given.
"""

import pathlib
import re

from .suite import CRASH, FAIL, LATE, PASS, SKIP, Job, Result, Suite, last_words

WANTED = re.compile(
    r"(accept|bind|close_range|connect|dup|epoll|eventfd|fcntl|getpeername|getsockname|getsockopt"
    r"|listen|poll|ppoll|pselect|recv|select|send|setsockopt|shutdown|sockioctl|socket|splice"
    r"|vmsplice)"
)
LIMIT = 90
PORT = "40000"

# What a test's status says, a bit each.
FAILED, BROKEN, NOT_HERE = 1, 2, 32

# netstress: a server, and five clients at once that ask it. By the name of the case, the
# options for both.
STRESS = {
    "tcp": [],
    "tcp_large": ["-n", "20000", "-N", "20000"],
    "udp": ["-T", "udp"],
    "fastopen": ["-f", "-t", "3"],
    "fastopen_connect": ["-F", "-t", "3"],
    "zerocopy": ["-z"],
    "reuse_port": ["-P", "1"],
}
# Which of netstress's options are for both ends, and which for one.
CLIENT = {"-n", "-N"}


def suite(path):
    """The suite that is installed at `path`."""
    if not path:
        return Suite("ltp", missing="no package of Debian's; LTP=PATH of an installed one")
    root = pathlib.Path(path)
    scenario = root / "runtest" / "syscalls"
    if not scenario.exists():
        return Suite("ltp", missing=f"{scenario} is not there")
    jobs = []
    for line in scenario.read_text().splitlines():
        name, _, command = line.strip().partition(" ")
        # Those that end in _64 or _16 are the same for other sizes of a file's offset.
        if not WANTED.match(name) or re.search(r"_(16|64)$", name):
            continue
        if (root / "testcases" / "bin" / command.split()[0]).exists():
            jobs.append(Job("ltp", name, runner(root, name, command.split())))
    for kind, options in STRESS.items():
        for version, hosts in ("", ("127.0.0.1", "10.78.0.3")), ("_ipv6", ("::1", "fd78::3")):
            name = f"netstress_{kind}{version}"
            run = stress(root, name, options, hosts)
            jobs.append(Job("ltp", name, run, ("kernel", "engine", "wire")))
    return Suite("ltp", jobs)


def environment(root, place):
    bins = f"{root}/testcases/bin"
    path = f"{bins}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"LTPROOT": str(root), "PATH": path, "LTP_TIMEOUT_MUL": "2", "LTP_COLORIZE_OUTPUT": "0",
            "KCONFIG_SKIP_CHECK": "1", "TMPDIR": str(place.directory)}  # fmt: skip


def runner(root, name, command):
    def run(place, only=None):
        program = [root / "testcases" / "bin" / command[0], *command[1:]]
        return {name: verdict(place.run(program, LIMIT, env=environment(root, place)))}

    return run


def stress(root, name, options, hosts):
    def run(place, only=None):
        two = len(place.engines) == 2
        program = root / "testcases" / "bin" / "netstress"
        env = environment(root, place)
        shared = options if options[:1] not in [[o] for o in CLIENT] else []
        with (place.directory / "server").open("wb") as log:
            serve = [program, "-g", PORT, "-R", "10", *shared]
            server = place.start(serve, output=log, env=env, engine=int(two))
            if not place.listening(server, int(two)):
                return {name: Result(FAIL, "the server does not listen")}
            ask = [program, "-l", "-H", hosts[two], "-g", PORT, "-a", "5", "-r", "200", *options]
            ask += ["-c", place.directory / "rate"]
            outcome = place.run(ask, LIMIT, env=env)
            place.kill_programs()
            server.wait()
        return {name: verdict(outcome)}

    return run


def verdict(outcome):
    lines = re.findall(r"(?:TFAIL|TBROK|TCONF)\s*:.*", outcome.output)
    said = re.sub(r"0x[0-9a-f]{6,}", "0x...", lines[0])[:300] if lines else ""
    if outcome.timed_out:
        return Result(LATE, f"more than {LIMIT} s")
    if outcome.status < 0 or outcome.status > 127:
        return Result(CRASH, f"status {outcome.status}: {last_words(outcome.output)}")
    if outcome.status & (FAILED | BROKEN):
        return Result(FAIL, said or last_words(outcome.output))
    if outcome.status & NOT_HERE:
        return Result(SKIP, said)
    return Result(PASS)
