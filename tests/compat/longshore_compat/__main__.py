"""Runs the suites: `python3 -m longshore_compat --help`, or `make compat`."""

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from . import cpython, differences, libuv, ltp, scripts
from .place import Place
from .suite import CRASH, PASS, SKIP, Result, Suite, last_words

HERE = pathlib.Path(__file__).parent.parent
TOP = HERE.parent.parent
ENGINES = {"kernel": 0, "engine": 1, "wire": 2}
SUITES = ("cpython", "libuv", "ltp", "node", "perl", "tcl")


def arguments():
    parser = argparse.ArgumentParser(
        prog="compat", description="Other projects' test suites on the kernel and on Longshore."
    )
    parser.add_argument("filters", nargs="*", help="only jobs whose SUITE/NAME has one of these in it")
    parser.add_argument("--suites", default=",".join(SUITES), help="by default %(default)s")
    parser.add_argument("--stacks", default=",".join(ENGINES), help="by default %(default)s")
    parser.add_argument("--jobs", type=int, default=2, help="run at once; by default %(default)s")
    parser.add_argument("--again", type=int, default=1, help="how often what differs is run again, alone")
    parser.add_argument("--out", type=pathlib.Path, help="for results and logs; by default target/compat")
    parser.add_argument("--longshore", type=pathlib.Path, help="by default target/release/longshore")
    parser.add_argument("--libuv", help="libuv's source; by default Debian's is fetched and built")
    parser.add_argument("--ltp", help="an installed LTP")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--update", action="store_true", help="write the tables of docs/compat-suites.md")
    return parser.parse_args()


class Run:
    """One run of all jobs: their results and what carried them."""

    def __init__(self, options, longshore, out):
        self.options = options
        self.longshore = longshore
        self.out = out
        self.results = {}
        self.carried = {}
        self.problems = []
        self.lock = threading.Lock()

    def job(self, job, stack, only=None):
        """Runs a job on a stack and keeps what came of it."""
        begin = time.monotonic()
        reflected = stack == "wire" and job.reflected
        with Place(self.longshore, 1 if reflected else ENGINES[stack], reflected) as place:
            try:
                results = job.run(place, only)
                place.kill_programs()
                carried = place.carried()
            except RuntimeError as error:
                results, carried = {f"(all of {job.name})": Result(CRASH, str(error)[:300])}, None
            gone = place.engines_gone()
            self.keep_output(job, stack, place)
        if gone:
            results[f"(engine of {job.name})"] = Result(CRASH, f"the engine has ended: {gone[-300:]}")
        with self.lock:
            cases = self.results.setdefault(job.suite, {}).setdefault(stack, {})
            for case, result in results.items():
                # A second chance counts if it goes well.
                if only is None or result.verdict == PASS:
                    cases[case] = result
            if only is None:
                self.carried[f"{job.suite}/{job.name}", stack] = carried
            seconds = time.monotonic() - begin
            bad = sum(r.verdict not in (PASS, SKIP) for r in results.values())
            print(
                f"{job.suite}/{job.name} on {differences.STACKS[stack]}: {len(results)} cases, "
                f"{bad} not passed, {seconds:.0f} s",
                file=sys.stderr,
            )

    def keep_output(self, job, stack, place):
        """Keeps what the job's programs and its engines have printed."""
        folder = self.out / "said" / stack / job.suite
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("output", "server", "engine0.log", "engine1.log"):
            if (place.directory / name).exists():
                shutil.copy(place.directory / name, folder / f"{job.name}.{name}")

    def all(self, jobs, stacks):
        work = [(job, stack) for job in jobs for stack in stacks if stack in job.stacks]
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for done in [pool.submit(self.job, *one) for one in work]:
                done.result()

    def again(self, jobs):
        """Runs what differs once more, with nothing beside it: a busy machine is no fault."""
        for _ in range(self.options.again):
            differing = {}
            for suite, stack, case, _ in differences.compare(self.results):
                differing.setdefault((suite, stack), set()).add(case)
            for job in jobs:
                for stack in job.stacks:
                    cases = differing.get((job.suite, stack), set())
                    mine = {c for c in cases if job.owns(c)}
                    if mine:
                        self.job(job, stack, mine)

    def prove(self):
        """What the engines did not carry though they should have; each a sentence."""
        for (name, stack), carried in sorted(self.carried.items()):
            if stack == "kernel" or carried is None:
                continue
            kernel = self.carried.get((name, "kernel"))
            if carried.kernel_active or carried.kernel_passive:
                yield (
                    f"{name} on {stack}: the kernel opened {carried.kernel_active} connections "
                    f"and accepted {carried.kernel_passive}"
                )
            if kernel and kernel.kernel_passive and not carried.engine_passive:
                yield f"{name} on {stack}: the engine accepted none, the kernel {kernel.kernel_passive}"
            if carried.left_over:
                yield f"{name} on {stack}: {carried.left_over} sessions are left"


def main():
    options = arguments()
    if os.geteuid() != 0:
        sys.exit("compat: takes root, for network namespaces")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
    out = (options.out or target / "compat").resolve()
    out.mkdir(parents=True, exist_ok=True)
    longshore = (options.longshore or target / "release" / "longshore").resolve()
    stacks = options.stacks.split(",")
    makers = {
        "cpython": cpython.suite,
        "libuv": lambda: libuv.suite(out, options.libuv),
        "ltp": lambda: ltp.suite(options.ltp),
        "node": lambda: scripts.node(out),
        "perl": lambda: scripts.perl(out),
        "tcl": lambda: scripts.tcl(out),
    }
    suites = [made(name, makers[name]) for name in SUITES if name in options.suites.split(",")]
    jobs = [job for suite in suites for job in suite.jobs]
    if options.filters:
        jobs = [j for j in jobs if any(f in f"{j.suite}/{j.name}" for f in options.filters)]

    run = Run(options, longshore, out)
    run.all(jobs, stacks)
    run.again(jobs)
    sys.exit(report(run, suites, options, out))


def made(name, make):
    """The suite, or why it cannot be had."""
    try:
        return make()
    except subprocess.CalledProcessError as error:
        return Suite(name, missing=last_words(error.stderr or str(error)))
    except OSError as error:
        return Suite(name, missing=str(error))


def report(run, suites, options, out):
    """Prints what came of it; the status."""
    path = HERE / "expected-differences.txt"
    expected = differences.read(path)
    known, news = differences.judge(differences.compare(run.results), expected)
    unproved = list(run.prove())
    whole = {
        "results": {
            suite: {
                stack: {case: dataclasses.asdict(result) for case, result in sorted(cases.items())}
                for stack, cases in stacks.items()
            }
            for suite, stacks in run.results.items()
        },
        "carried": {
            f"{name} {stack}": dataclasses.asdict(carried) if carried else None
            for (name, stack), carried in sorted(run.carried.items())
        },
        "not_run": {suite.name: suite.missing for suite in suites if suite.missing},
        "expected_differences": [[*difference[:3], difference[4]] for difference in known],
        "new_differences": [[*difference[:3], difference[3].why] for difference in news],
        "not_carried": unproved,
    }
    (out / "results.json").write_text(json.dumps(whole, indent=1))
    if options.json:
        print(json.dumps(whole, indent=1))
    else:
        tell(run, suites, expected, known, news, unproved, options)
    if options.update:
        document = TOP / "docs" / "compat-suites.md"
        text = document.read_text()
        if not options.filters:
            counts = functools.partial(differences.summary, run.results)
            text = differences.put(text, "counts", counts)
        table = differences.table(expected)
        document.write_text(differences.put(text, "differences", lambda _: table))
    return 1 if news or unproved else 0


def tell(run, suites, expected, known, news, unproved, options):
    print(differences.summary(run.results))
    for suite in suites:
        if suite.missing:
            print(f"\n{suite.name} was not run: {suite.missing}")
    print(f"\n{len(known)} cases differ as expected (tests/compat/expected-differences.txt)")
    whole = not options.filters and set(options.stacks.split(",")) == set(ENGINES)
    unused = [e for e in expected if not e.used and e.suite in run.results]
    if whole and unused:
        print("These pass now and need not be listed any more:")
        for e in unused:
            print(f"  {e.suite} {e.stack} {e.case}")
    if unproved:
        print("\nNot carried by the engine:")
        for sentence in unproved:
            print(f"  {sentence}")
    if news:
        print("\nNew differences:")
        for suite, stack, case, result in news:
            print(f"  {suite} {stack} {case}: {result.verdict}: {result.why}")


if __name__ == "__main__":
    main()
