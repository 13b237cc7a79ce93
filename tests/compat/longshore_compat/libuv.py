"""libuv's own tests, built from Debian's source package or from a source tree given."""

import os
import pathlib
import re
import shutil
import subprocess

from . import sources
from .sources import call
from .suite import FAIL, LATE, PASS, SKIP, Job, Result, Suite, last_words

HERE = pathlib.Path(__file__).parent.parent
NOBODY = 65534
# libuv's own limit for a test is 5 s, many times that on a busy machine by this factor.
TIMEOUT = {"UV_TEST_TIMEOUT_MULTIPLIER": "6"}
LIMIT = 60
# The status by which a test says that it cannot run here.
SKIPPED = 7


def suite(work, source=None):
    """The suite, built below `work` if that has not been done; `source` is a tree of libuv's."""
    for tool in ("cmake", "gcc", "setpriv"):
        if not shutil.which(tool):
            return Suite("libuv", missing=f"{tool} is not installed")
    tree = pathlib.Path(source) if source else debian_source(work)
    program = build(tree, work / "libuv-build")
    helpers = helped(tree)
    jobs = []
    for name in listed(program):
        stacks = ("kernel", "engine", "wire") if name in helpers else ("kernel", "engine")
        jobs.append(Job("libuv", name, runner(tree, program, name, helpers.get(name)), stacks))
    return Suite("libuv", jobs)


def debian_source(work):
    """Debian's source, with Debian's patches."""
    tree = work / "libuv"
    if not tree.exists():
        files = sources.fetch("libuv1", work)
        (description,) = files.glob("*.dsc")
        call(["dpkg-source", "--no-check", "-x", description, tree], files)
    return tree


def build(tree, into):
    """Builds the tests; addresses go through address_of_peer.c, for two engines."""
    program = into / "uv_run_tests_a"
    if program.exists():
        return program
    into.mkdir(parents=True, exist_ok=True)
    peer = into / "address_of_peer.o"
    call(["gcc", "-c", "-O1", "-o", peer, f"-I{tree}/include", HERE / "address_of_peer.c"], into)
    wrap = f"{peer} -Wl,--wrap=uv_ip4_addr,--wrap=uv_ip6_addr"
    call(
        ["cmake", tree, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DLIBUV_BUILD_TESTS=ON",
         "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", f"-DCMAKE_EXE_LINKER_FLAGS={wrap}"],
        into,
    )  # fmt: skip
    call(["make", f"-j{os.cpu_count()}", "uv_run_tests_a"], into)
    return program


def listed(program):
    """The names of all tests."""
    said = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program, "--list"],
        capture_output=True, text=True, check=True, cwd="/",
    ).stdout  # fmt: skip
    # Behind a name may stand its helpers.
    return [line.split()[0] for line in said.splitlines() if line.strip()]


def helped(tree):
    """The tests with a server in a process of its own, and its name."""
    text = (tree / "test" / "test-list.h").read_text()
    found = re.findall(r"TEST_HELPER\s*\((\w+),\s*((?:tcp|udp)\w*_server)\)", text)
    return dict(found)


def runner(tree, program, name, helper):
    def run(place, only=None):
        directory = place.directory / "tests"
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
        if not (directory / "test").exists():
            (directory / "test").symlink_to(tree / "test")
        how = {"cwd": directory, "user": NOBODY, "env": TIMEOUT}
        if len(place.engines) == 2:
            return {name: on_two(place, program, name, helper, how)}
        return {name: verdict(place.run([program, name], LIMIT, **how))}

    return run


def on_two(place, program, name, helper, how):
    """The test's server on the second engine, the test on the first."""
    how["env"] = {**TIMEOUT, "COMPAT_PEER": "10.78.0.3", "COMPAT_PEER6": "fd78::3"}
    with (place.directory / "server").open("wb") as log:
        server = place.start([program, name, helper], output=log, engine=1, **how)
        if not place.listening(server, 1):
            return Result(FAIL, f"{helper} does not listen: {log.name}")
        outcome = place.run([program, name, name], LIMIT, **how)
        place.kill_programs()
        server.wait()
    return verdict(outcome)


def verdict(outcome):
    if outcome.timed_out:
        return Result(LATE, f"more than {LIMIT} s")
    if outcome.status == 0 and "# SKIP" not in outcome.output:
        return Result(PASS)
    if outcome.status in (0, SKIPPED):
        return Result(SKIP, last_words(outcome.output, 1))
    return Result(FAIL, f"status {outcome.status}: {last_words(outcome.output)}")

