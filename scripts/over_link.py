#!/usr/bin/env python3
"""`longshore` for scripts/e2e-over.sh, with the engine at the other end of a link.

    over_link.py DIRECTORY LONGSHORE [ARGUMENT...]

Of `LONGSHORE run OPTIONS -- PROGRAM` it makes two: an engine with those options in its
configuration, which takes links at a Unix socket, and `run --engine link:...` with the rest.
Signals are passed on to the second, whose exit code is the code here, and the engine is ended after
it, so that its last statistics are there when this returns. All other commands, and `run` with an
engine of its own, are LONGSHORE's. What only a private engine can do (--fault) is refused.
DIRECTORY is for sockets, keys and logs of engines, and to be removed by the caller: a test may end
this program by SIGKILL.
"""

import argparse
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# Those that `longshore run` passes on to its program.
PASSED_ON = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGWINCH]
# The exit code of `longshore run` when it has failed itself.
OWN_FAILURE = 125
# Seconds until an engine takes links, and until one without programs has ended.
LIMIT = 30
PR_SET_PDEATHSIG = 1


def parser():
    """The options of `run` that are the engine's; --addr is the one that has to be there."""
    these = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    these.add_argument("--port", default=f"tap:link{os.getpid()}")
    these.add_argument("--addr", action="append", required=True)
    these.add_argument("--gateway", action="append")
    these.add_argument("--mtu", type=int)
    for name in ("--loopback", "--sysctl", "--congestion", "--batching"):
        these.add_argument(name)
    these.add_argument("--ecn", type=int)
    these.add_argument("--user-timeout-option", action="store_true", default=None)
    for name in ("--messages", "--accept-on-data"):
        these.add_argument(name, action="append")
    these.add_argument("--no-sandbox", dest="sandbox", action="store_false", default=None)
    return these


def configuration(options, socket):
    """The engine's configuration; strings, numbers, booleans and lists are TOML as JSON has them."""
    settings = {"socket": socket, "port": options.port, "address": options.addr}
    for name in ("gateway", "mtu", "loopback", "sysctl", "congestion", "batching", "ecn",
                 "user_timeout_option", "messages", "accept_on_data", "sandbox"):
        settings[name] = getattr(options, name)
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()
                   if value is not None)


def as_a_child(number):
    """What a child is to do before exec: get signal `number` when this program ends, which a test
    may have killed, and receive what waits for it here."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)


def start_engine(longshore, options, place):
    """An engine that takes links at `place`/link, or None, and why is on stderr."""
    (place / "config").write_text(configuration(options, str(place / "engine")))
    key = place / "key"
    key.write_text("5a" * 32)
    key.chmod(0o600)
    with open(place / "log", "wb") as log:
        engine = subprocess.Popen(
            [longshore, "engine", "--config", place / "config", "--link", f"unix:{place}/link",
             "--link-key", key],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            # Its program is gone then, and it ends in order: with its last statistics.
            preexec_fn=lambda: as_a_child(signal.SIGTERM))
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and engine.poll() is None:
        # The sockets are there a little before the engine is ready.
        if " serves " in (place / "log").read_text():
            return engine
        time.sleep(0.01)
    sys.stderr.write((place / "log").read_text())
    engine.kill()
    engine.wait()
    return None


def run(longshore, options, rest, place):
    """Runs the program on an engine of its own; the exit code of `longshore run`."""
    # Until there is somebody to pass them on to, they wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    engine = start_engine(longshore, options, place)
    if engine is None:
        return OWN_FAILURE
    program = subprocess.Popen(
        [longshore, "run", "--engine", f"link:unix:{place}/link", "--link-key", place / "key", *rest],
        preexec_fn=lambda: as_a_child(signal.SIGKILL))
    for number in PASSED_ON:
        signal.signal(number, lambda number, _frame: program.send_signal(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = program.wait()
    engine.send_signal(signal.SIGTERM)
    try:
        engine.wait(LIMIT)
    except subprocess.TimeoutExpired:
        sys.stderr.write("over_link.py: the engine does not end\n" + (place / "log").read_text())
        engine.kill()
        return OWN_FAILURE
    if engine.returncode != 0:
        sys.stderr.write((place / "log").read_text())
        return OWN_FAILURE
    return 128 - code if code < 0 else code


def main():
    directory, longshore, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    if arguments[:1] != ["run"] or "--" not in arguments or "--addr" not in arguments:
        os.execv(longshore, [longshore, *arguments])
    split = arguments.index("--")
    options, rest = parser().parse_known_args(arguments[1:split])
    if "--fault" in rest or "--transport" in rest:
        sys.exit(f"over_link.py: {rest}: not with an engine at the other end of a link")
    place = pathlib.Path(tempfile.mkdtemp(dir=directory))
    sys.exit(run(longshore, options, [*rest, *arguments[split:]], place))


if __name__ == "__main__":
    main()
