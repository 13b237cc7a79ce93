"""CPython's tests of all that uses the network, from Debian's libpython3.N-testsuite."""

import json
import pathlib
import subprocess
import sys
import time

from .suite import CRASH, LATE, Job, Result, Suite, last_words

# The distribution's, whichever version that is; another one may stand before it in the PATH.
PYTHON = "/usr/bin/python3"
# The version with which the expected differences were found.
KNOWN = "3.11"
CASES = pathlib.Path(__file__).parent.parent / "cpython_cases.py"

# Modules by what they are about; later versions do not have all of them any more. Those of
# test_asyncio and of what is built on it stand for epoll; test_multiprocessing_* for sockets
# and fork.
MODULES = """
test_socket test_ssl test_socketserver test_timeout test_select test_selectors test_poll
test_epoll test_asyncore test_asynchat test_ftplib test_httplib test_httpservers
test_http_cookiejar test_imaplib test_poplib test_smtplib test_smtpd test_nntplib
test_telnetlib test_urllib test_urllib2 test_urllib2_localnet test_urllib_response
test_robotparser test_wsgiref test_xmlrpc test_docxmlrpc test_logging test_pydoc
test_signal test_fcntl test_file_eintr test_subprocess test_os test_stat test_support
test_concurrent_futures test_multiprocessing_fork test_multiprocessing_forkserver
test_multiprocessing_spawn test_multiprocessing_main_handling test_mailbox test_sax test_pty
test_ioctl test_exception_hierarchy test_contextlib_async
test_asyncio.test_base_events test_asyncio.test_buffered_proto test_asyncio.test_context
test_asyncio.test_events test_asyncio.test_futures test_asyncio.test_futures2
test_asyncio.test_locks test_asyncio.test_pep492 test_asyncio.test_proactor_events
test_asyncio.test_protocols test_asyncio.test_queues test_asyncio.test_runners
test_asyncio.test_selector_events test_asyncio.test_sendfile test_asyncio.test_server
test_asyncio.test_sock_lowlevel test_asyncio.test_ssl test_asyncio.test_sslproto
test_asyncio.test_streams test_asyncio.test_subprocess test_asyncio.test_taskgroups
test_asyncio.test_tasks test_asyncio.test_threads test_asyncio.test_timeouts
test_asyncio.test_transports test_asyncio.test_unix_events test_asyncio.test_waitfor
""".split()

# Those whose connections are in one process, which runs over a TAP, too; see over_the_wire.py.
WIRE = {
    *"test_socket test_ssl test_socketserver test_asyncore test_asynchat test_ftplib".split(),
    *"test_httplib test_httpservers test_imaplib test_poplib test_smtplib test_smtpd".split(),
    *"test_telnetlib test_urllib2_localnet test_xmlrpc test_docxmlrpc test_logging".split(),
    *(m for m in MODULES if m.startswith("test_asyncio") and "proactor" not in m),
}

# Seconds: for one test, and until the module's first begins.
LIMIT = 90
# How many tests of a module may hang or crash before it is given up.
MISHAPS = 30


def suite():
    """The suite, if it is installed."""
    version, tests = installed()
    if not (tests / "test_socket.py").exists():
        return Suite("cpython", missing=f"apt install libpython{version}-testsuite")
    if version != KNOWN:
        print(
            f"cpython: this is {version}; what is expected to differ was found with {KNOWN}",
            file=sys.stderr,
        )
    jobs = []
    for module in (m for m in MODULES if exists(tests, m)):
        stacks = ("kernel", "engine", "wire") if module in WIRE else ("kernel", "engine")
        jobs.append(Job("cpython", module, runner(module), stacks, reflected=True))
    return Suite("cpython", jobs)


def installed():
    """The interpreter's version, and where its tests are."""
    ask = "import sys, sysconfig as s; print(s.get_python_version(), s.get_path('stdlib'))"
    answer = subprocess.run([PYTHON, "-c", ask], check=True, capture_output=True, text=True)
    version, library = answer.stdout.split()
    return version, pathlib.Path(library) / "test"


def exists(tests, module):
    """Whether there is such a module, or package."""
    path = tests.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def runner(module):
    def run(place, only=None):
        return run_module(place, module, only)

    return run


def run_module(place, module, only):
    """Runs a module; one that hangs or crashes is started again behind the test that did."""
    said = place.directory / "results"
    done = place.directory / "done"
    wanted = place.directory / "only"
    results = {}
    mishaps = 0
    while mishaps < MISHAPS:
        said.write_text("")
        done.write_text("\n".join(results))
        command = [PYTHON, CASES, f"test.{module}", said, "--done", done]
        if place.reflected:
            command.append("--wire")
        if only is not None:
            wanted.write_text("\n".join(only))
            command += ["--only", wanted]
        status, at, results_now, ended, output = watch(place, command, said)
        results.update(results_now)
        if ended:
            return results
        mishaps += 1
        verdict = LATE if status is None else CRASH
        why = f"more than {LIMIT} s" if status is None else f"status {status}: {last_words(output)}"
        if at is None:
            results[f"(all of {module})"] = Result(verdict, why)
            return results
        results[at] = Result(verdict, why)
    results[f"(rest of {module})"] = Result(CRASH, f"{MISHAPS} of its tests hung or crashed")
    return results


def watch(place, command, said):
    """Runs the cases' runner and reads its results as they come.

    Gives its status (None if a test's time was over), the case it was at, the results, whether it
    came to its end, and its output.
    """
    log = place.directory / "output"
    results, at, ended, read = {}, None, False, 0
    with log.open("ab") as output:
        process = place.start(command, output=output)
        since = time.monotonic()
        status = None
        while True:
            gone = process.poll() is not None
            lines = said.read_text().splitlines(keepends=True)
            for line in lines[read:]:
                if not line.endswith("\n"):
                    break
                read += 1
                news = json.loads(line)
                since = time.monotonic()
                if "start" in news:
                    at = news["start"]
                elif "end" in news:
                    ended = True
                else:
                    results[news["case"]] = Result(news["verdict"], news["why"])
                    at = None if at == news["case"] else at
            if gone:
                status = process.returncode
                break
            if time.monotonic() - since > LIMIT:
                break
            time.sleep(0.05)
    place.kill_programs()
    process.wait()
    return status, at, results, ended, log.read_text(errors="replace")
