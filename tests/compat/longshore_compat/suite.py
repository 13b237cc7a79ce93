"""What a suite is to the harness: jobs, each of which gives verdicts on cases."""

from dataclasses import dataclass, field

# A case's verdict. `late` is a case that its time limit has ended; `crash` one that has
# taken its process with it.
PASS, FAIL, SKIP, LATE, CRASH = "pass", "fail", "skip", "late", "crash"


@dataclass
class Result:
    """Of one case: its verdict, and in words why."""

    verdict: str
    why: str = ""


@dataclass
class Job:
    """What runs in one namespace: a module of tests, or a test program.

    `run(place, only)` gives a `Result` for each case by its name; with `only`, a set of names,
    at least for those. `stacks` are those on which it can run. Over the wire, it has two engines,
    or, `reflected`, one that is reached through the kernel between.
    """

    suite: str
    name: str
    run: object
    stacks: tuple = ("kernel", "engine")
    reflected: bool = False

    def owns(self, case):
        """Whether a case is of this job: its name is the job's, or begins with it, or says it."""
        return (
            self.name in (case, case.replace("/", "-"))
            or case.startswith((f"test.{self.name}.", f"{self.name} "))
            or f" of {self.name})" in case
        )


@dataclass
class Suite:
    """A suite that is there, with its jobs; or the reason why it is not."""

    name: str
    jobs: list = field(default_factory=list)
    missing: str = ""


def last_words(output, count=3):
    """The end of a program's output on one line, for tables."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " / ".join(lines[-count:])[:300]
