"""What differs between the stacks, what of it is expected, and how both are told.

A difference is a case that passes on the kernel and does not on Longshore. Those that are
known are in expected-differences.txt, a line each: suite, stack and case (with `*` and `?` as in
file names), then behind ` -- ` the reason. The table in docs/compat-suites.md is made of
that file and of the counts of the last full run.
"""

import fnmatch
from collections import Counter
from dataclasses import dataclass

from .suite import PASS, SKIP

STACKS = {"kernel": "kernel", "engine": "one engine", "wire": "over a TAP"}


@dataclass
class Expected:
    suite: str
    stack: str
    case: str
    reason: str
    used: bool = False

    def fits(self, suite, stack, case):
        return (
            suite == self.suite
            and fnmatch.fnmatchcase(stack, self.stack)
            and fnmatch.fnmatchcase(case, self.case)
        )


def read(path):
    """The expected differences of a file."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        what, mark, reason = line.partition(" -- ")
        words = what.split(None, 2)
        if not mark or len(words) != 3 or not reason.strip():
            raise SystemExit(f"{path}:{number}: not SUITE STACK CASE -- REASON")
        found.append(Expected(words[0], words[1], words[2].strip(), reason.strip()))
    return found


def compare(results):
    """The differences: (suite, stack, case, result), of `results[suite][stack][case]`."""
    for suite, stacks in results.items():
        kernel = stacks.get("kernel", {})
        for stack in stacks:
            if stack == "kernel":
                continue
            for case, result in sorted(stacks[stack].items()):
                # A case that the kernel does not have stands for others that it hides.
                base = kernel[case].verdict if case in kernel else PASS
                if base == PASS and result.verdict != PASS and (kernel or result.verdict != SKIP):
                    yield suite, stack, case, result


def judge(differences, expected):
    """Splits differences into those that are expected, with their reason, and news."""
    known, news = [], []
    for suite, stack, case, result in differences:
        match = next((e for e in expected if e.fits(suite, stack, case)), None)
        if match:
            match.used = True
            known.append((suite, stack, case, result, match.reason))
        else:
            news.append((suite, stack, case, result))
    return known, news


def rows(results):
    """The lines of the table of counts, by suite and stack."""
    found = {}
    differences = Counter((suite, stack) for suite, stack, *_ in compare(results))
    for suite, stacks in results.items():
        for stack, cases in stacks.items():
            verdicts = Counter(result.verdict for result in cases.values())
            failed = sum(n for verdict, n in verdicts.items() if verdict not in (PASS, SKIP))
            base = ""
            if stack != "kernel" and "kernel" in stacks:
                kernel = stacks["kernel"]
                both = [c for c in cases if c in kernel and kernel[c].verdict == PASS]
                base = f"{len(both) - differences[suite, stack]} of {len(both)}"
            found[suite, STACKS[stack]] = (
                f"| {suite} | {STACKS[stack]} | {verdicts[PASS]} | {failed} "
                f"| {verdicts[SKIP]} | {base} |"
            )
    return found


def summary(results, before=""):
    """The table of counts. Lines of suites and stacks that `before` has and this run had not
    are kept."""
    found = {}
    for line in before.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[1] in STACKS.values():
            found[cells[0], cells[1]] = line
    found.update(rows(results))
    order = list(STACKS.values())
    keys = sorted(found, key=lambda key: (key[0], order.index(key[1])))
    return "\n".join([
        "| suite | on | passed | failed | skipped | of those that pass on the kernel |",
        "| --- | --- | ---: | ---: | ---: | --- |",
        *(found[key] for key in keys),
    ])  # fmt: skip


def table(expected):
    """The expected differences as a table."""
    lines = ["| suite | on | case | why it differs |", "| --- | --- | --- | --- |"]
    for e in expected:
        stack = "both" if e.stack == "*" else STACKS[e.stack]
        lines.append(f"| {e.suite} | {stack} | `{e.case}` | {e.reason} |")
    return "\n".join(lines)


BEGIN, END = "<!-- written by make compat: {} -->\n", "<!-- end -->\n"


def put(document, name, text):
    """The document with the part of this name replaced; `text` makes the new one of the old."""
    begin = BEGIN.format(name)
    before, mark, rest = document.partition(begin)
    old, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"there is no place for {name!r} in the document")
    return f"{before}{begin}\n{text(old)}\n\n{end}{after}"
