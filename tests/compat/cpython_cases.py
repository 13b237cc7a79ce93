"""Runs the tests of one of CPython's modules and writes a line of JSON for each as it
begins and ends, so that whoever watches knows where a hanging or crashed one was.

    python3 cpython_cases.py MODULE RESULTS [--done FILE] [--only FILE] [--wire]

Runs within the interpreter under test, and so uses nothing but its library.
"""

import argparse
import importlib
import json
import os
import sys
import unittest

RESOURCES = "all,-network,-urlfetch,-largefile,-audio,-gui,-curses,-tzdata"


def names(path):
    """The cases that a file lists, one a line."""
    if path is None:
        return None
    with open(path, encoding="utf-8") as lines:
        return {line.rstrip("\n") for line in lines}


def flat(tests):
    """The cases of a suite of suites, in their order."""
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


class Written(unittest.TestResult):
    """A result that is written as it comes."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.pid = os.getpid()
        self.verdict = None

    def write(self, **what):
        # A child that a test has forked and that fell through has nothing to say.
        if os.getpid() == self.pid:
            with open(self.path, "a", encoding="utf-8") as out:
                out.write(json.dumps(what) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self.verdict = ("pass", "")
        self.write(start=test.id())

    def stopTest(self, test):
        super().stopTest(test)
        verdict, why = self.verdict
        self.write(case=test.id(), verdict=verdict, why=why)

    def worse(self, test, verdict, error):
        why = f"{error[0].__name__}: {error[1]}".strip().splitlines()[0][:300]
        if isinstance(test, unittest.TestCase):
            if self.verdict[0] != "fail":
                self.verdict = (verdict, why)
        else:
            # A fixture of a class or module: no test of it runs.
            self.write(case=test.id(), verdict=verdict, why=why)

    def addError(self, test, err):
        self.worse(test, "fail", err)
        self.tell(test, err)

    def addFailure(self, test, err):
        self.worse(test, "fail", err)
        self.tell(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.worse(test, "fail", err)
            self.tell(subtest, err)

    def addSkip(self, test, reason):
        if isinstance(test, unittest.TestCase):
            if self.verdict is None or self.verdict[0] == "pass":
                self.verdict = ("skip", str(reason)[:300])
        else:
            self.write(case=test.id(), verdict="skip", why=str(reason)[:300])

    def addUnexpectedSuccess(self, test):
        self.verdict = ("fail", "unexpected success")

    def tell(self, test, err):
        print(f"==== {test.id()}\n{self._exc_info_to_string(err, test)}", flush=True)


def prepare():
    """Does what regrtest does before it runs a module. Since 3.12 that is in two parts, and the
    second, which mostly repeats the defaults, takes an object of regrtest's own."""
    from test import support
    from test.libregrtest import cmdline, setup

    options = cmdline._parse_args(["-u", RESOURCES])
    if hasattr(setup, "setup_process"):
        setup.setup_process()
        support.use_resources = options.use_resources
    else:
        setup.setup_tests(options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("results")
    parser.add_argument("--done")
    parser.add_argument("--only")
    parser.add_argument("--wire", action="store_true")
    arguments = parser.parse_args()
    done, only = names(arguments.done) or set(), names(arguments.only)

    prepare()
    if arguments.wire:
        import over_the_wire

        over_the_wire.install()
    result = Written(arguments.results)
    try:
        module = importlib.import_module(arguments.module)
        tests = unittest.TestLoader().loadTestsFromModule(module)
    except unittest.SkipTest as why:
        result.write(case=f"(all of {arguments.module})", verdict="skip", why=str(why)[:300])
        result.write(end=True)
        return
    chosen = [
        test
        for test in flat(tests)
        if test.id() not in done and (only is None or test.id() in only)
    ]
    unittest.TestSuite(chosen).run(result)
    result.write(end=True)
    sys.stdout.flush()
    # Threads that a test has left behind do not hold this up.
    os._exit(0)


if __name__ == "__main__":
    main()
