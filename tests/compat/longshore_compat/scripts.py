"""Tests that are scripts for an interpreter of Debian's, from the sources of its packages:
Node.js, Perl, Tcl."""

import re
import shutil
import subprocess

from . import sources
from .suite import CRASH, FAIL, LATE, PASS, SKIP, Job, Result, Suite, last_words

LIMIT = 90

NODE = re.compile(
    r"test-(net|dgram|http|http2|https|tls|cluster|child-process|dns|stream|stdio|stdin|stdout"
    r"|tcp|socket|pipe|listen|regress|process|worker|tty|whatwg|zlib)-"
)
PERL = [
    "t/io/socket.t", "dist/IO/t/*.t", "cpan/IO-Socket-IP/t/*.t", "cpan/libnet/t/*.t",
    "cpan/Socket/t/*.t", "cpan/HTTP-Tiny/t/*.t", "dist/Net-Ping/t/*.t",
]  # fmt: skip
TCL = ["socket", "http", "http11", "httpold", "httpPipeline", "io", "ioCmd", "event", "chanio"]


def node(work):
    """Node.js's tests of what is over sockets, in processes or asynchronous."""
    if not shutil.which("node"):
        return Suite("node", missing="apt install nodejs")
    tree = sources.unpack("nodejs", work, "*/test/common*", "*/test/fixtures*", "*/test/parallel*",
                          "*/test/sequential*")  # fmt: skip
    jobs = []
    for script in sorted(tree.glob("test/*/test-*.js")):
        if NODE.match(script.name):
            head = re.search(r"^// Flags: (.*)$", script.read_text(errors="replace"), re.M)
            command = ["node", *(head[1].split() if head else []), script]
            jobs.append(Job("node", script.stem, runner(script.stem, command, tree, status)))
    return Suite("node", jobs)


def perl(work):
    """Perl's tests of its modules for sockets."""
    if not shutil.which("/usr/bin/perl"):
        return Suite("perl", missing="apt install perl")
    tree = sources.unpack("perl", work)
    jobs = []
    for script in sorted(script for pattern in PERL for script in tree.glob(pattern)):
        # The directory that a module's tests expect is the module's own.
        module = tree / "t" if script.is_relative_to(tree / "t") else script.parent.parent
        name = f"{module.name}/{script.stem}"
        command = ["/usr/bin/perl", f"-I{module}/t/lib", f"-I{tree}/t/lib", script]
        jobs.append(Job("perl", name.replace("/", "-"), runner(name, command, module, tap)))
    return Suite("perl", jobs)


def tcl(work):
    """Tcl's tests of sockets, channels and its HTTP client."""
    if not shutil.which("tclsh"):
        return Suite("tcl", missing="apt install tcl")
    tree = sources.unpack("tcl8.6", work, "*/tests*", "*/library*")
    jobs = []
    for name in TCL:
        command = ["tclsh", tree / "tests" / f"{name}.test", "-verbose", "bpse"]
        jobs.append(Job("tcl", name, runner(name, command, tree / "tests", tcltest)))
    return Suite("tcl", jobs)


def runner(name, command, directory, judge):
    def run(place, only=None):
        tests = place.directory / "tests"
        tests.mkdir(exist_ok=True)
        env = {"NODE_TEST_DIR": str(tests), "NODE_SKIP_FLAG_CHECK": "1"}
        outcome = place.run(command, LIMIT, cwd=directory, env=env)
        if outcome.timed_out:
            return {name: Result(LATE, f"more than {LIMIT} s: {last_words(outcome.output, 1)}")}
        if outcome.status < 0 or outcome.status > 128:
            why = f"status {outcome.status}: {last_words(outcome.output)}"
            return {name: Result(CRASH, why)}
        return judge(name, outcome)

    return run


def status(name, outcome):
    """A program that says by its status whether it has passed."""
    if outcome.status != 0:
        return {name: Result(FAIL, last_words(outcome.output, 12))}
    skipped = re.search(r"^1\.\.0 # Skipped: (.*)", outcome.output, re.M)
    return {name: Result(SKIP, skipped[1]) if skipped else Result(PASS)}


def tap(name, outcome):
    """A program that prints TAP."""
    if re.search(r"^1\.\.0", outcome.output, re.M):
        return {name: Result(SKIP, last_words(outcome.output, 1))}
    failed = re.findall(r"^not ok \d+(?!.*# TODO).*", outcome.output, re.M)
    if outcome.status != 0 or failed or "ok 1" not in outcome.output:
        return {name: Result(FAIL, " / ".join(failed)[:300] or last_words(outcome.output))}
    return {name: Result(PASS)}


def tcltest(name, outcome):
    """A file of Tcl's: its tests one by one."""
    results = {f"{name} {test}": Result(PASS) for test in re.findall(r"^\+\+\+\+ (\S+) PASSED", outcome.output, re.M)}
    for test, why in re.findall(r"^\+\+\+\+ (\S+) SKIPPED: (.*)", outcome.output, re.M):
        results[f"{name} {test}"] = Result(SKIP, why)
    for test in re.findall(r"^==== (\S+) .*FAILED$", outcome.output, re.M):
        results[f"{name} {test}"] = Result(FAIL, f"see what {name} has printed")
    if not results or outcome.status != 0 and not any(r.verdict == FAIL for r in results.values()):
        results[f"(rest of {name})"] = Result(FAIL, last_words(outcome.output))
    return results
