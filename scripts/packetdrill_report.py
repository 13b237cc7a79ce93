#!/usr/bin/env python3
"""What came of a run of packetdrill.sh: OUT EXPECTATIONS [--update].

Reads OUT/results.tsv, prints a table by folder, regressions and news, and writes
OUT/failures.json. The status is 1 if a case of EXPECTATIONS/expected.txt has failed.
"""

import json
import pathlib
import sys
from collections import Counter


def lines(path):
    """The lines of a file that say something."""
    if not path.exists():
        return []
    text = path.read_text().splitlines()
    return [line for line in text if line.strip() and not line.startswith("#")]


def table(cases):
    """Passed of all, by folder and stack."""
    every, passed = Counter(), Counter()
    for (stack, _, script), (verdict, _) in cases.items():
        for folder in (script.split("/")[1], "together"):
            every[folder, stack] += 1
            passed[folder, stack] += verdict == "PASS"
    folders = sorted({folder for folder, _ in every} - {"together"})
    print(f"{'passed of all':22} {'kernel':>14} {'Longshore':>14}")
    for folder in folders + ["together"]:
        cells = [
            f"{passed[folder, stack]:7} of {every[folder, stack]:3}"
            for stack in ("kernel", "longshore")
        ]
        print(f"{folder:22} {cells[0]} {cells[1]}")


def main():
    out, expectations = map(pathlib.Path, sys.argv[1:3])
    cases = {}
    for line in (out / "results.tsv").read_text().splitlines():
        stack, variant, script, verdict, why = line.split("\t")[:5]
        cases[stack, variant, script] = (verdict, why)
    table(cases)

    linux_only = [line.split(None, 1) for line in lines(expectations / "linux-only.txt")]

    def reason(script):
        return next((why for path, why in linux_only if script.startswith(path)), None)

    ours = {key[1:]: value for key, value in cases.items() if key[0] == "longshore"}
    kernel = {key[1:] for key, value in cases.items() if key[0] == "kernel" and value[0] == "PASS"}
    passing = {case for case, (verdict, _) in ours.items() if verdict == "PASS"}
    if kernel and ours:
        counted = {case for case in kernel if reason(case[1]) is None}
        for variant in sorted({variant for variant, _ in counted}) + [""]:
            base = {c for c in counted if variant in ("", c[0])}
            share = 100 * len(base & passing) / max(len(base), 1)
            print(
                f"of {len(base)} {variant + ' ' if variant else ''}cases that pass on the kernel and "
                f"are not of Linux alone, {len(base & passing)} pass on Longshore: {share:.1f} %"
            )

    failures = [
        {
            "variant": case[0],
            "script": case[1],
            "said": why,
            "passes_on_kernel": case in kernel,
            "linux_only": reason(case[1]),
        }
        for case, (verdict, why) in sorted(ours.items())
        if verdict != "PASS"
    ]
    (out / "failures.json").write_text(json.dumps(failures, indent=1) + "\n")
    print(f"each case: {out}/results.tsv; Longshore's failures: {out}/failures.json")
    if not ours:
        return 0

    path = expectations / "expected.txt"
    expected = {tuple(line.split()) for line in lines(path)}
    if "--update" in sys.argv:
        kept = {case for case in expected if case not in ours}
        heading = [line for line in path.read_text().splitlines() if line.startswith("#")]
        text = heading + sorted(" ".join(case) for case in kept | passing)
        path.write_text("\n".join(text) + "\n")
        return 0
    for case in sorted(passing - expected):
        print("passes, and was not expected to:", *case)
    regressions = sorted(case for case in expected & ours.keys() if case not in passing)
    for case in regressions:
        print("regression:", *case, "--", ours[case][1])
    return 1 if regressions else 0


if __name__ == "__main__":
    sys.exit(main())
