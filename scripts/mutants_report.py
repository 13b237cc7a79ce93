"""Says what came of mutants: mutants_report.py OUT SURVIVORS CRATE...

OUT/CRATE/all.txt is the list of all mutants of a crate, OUT/CRATE/results.txt what runs have
found, the latest last: `missed crates/wire/src/arp.rs:12:5: ...`. SURVIVORS lists those that may survive, one a line:

    crates/wire/src/arp.rs: replace + with - in parse #2  # why no test should notice

`#2` is the second of those that have the same name in the file; without it, the first.
Fails if another survives, or if one of the list is caught, or not there.
"""

import collections
import pathlib
import re
import sys

PLACE = re.compile(r"^([^:]+):\d+:\d+: (.*)$")


def named(all_of_crate):
    """The names of mutants, which do not change with the lines above, by cargo-mutants'."""
    seen = collections.Counter()
    names = {}
    for line in all_of_crate:
        path, what = PLACE.match(line).groups()
        name = f"{path}: {what}"
        seen[name] += 1
        names[line] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return names


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def explained(path):
    """The list of those that may survive: {name: line number}."""
    entries = {}
    for number, line in enumerate(lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition("  # ")
        if not reason.strip():
            sys.exit(f"{path}:{number}: no reason is given: two blanks, #, a blank, and why")
        if name in entries:
            sys.exit(f"{path}:{number}: it is on line {entries[name]}, too")
        entries[name] = number
    return entries


def main():
    out, survivors = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    may_survive = explained(survivors)
    faults, total = [], collections.Counter()
    print(f"{'crate':8} {'all':>6} {'caught':>7} {'timed out':>10} {'missed':>7} {'unviable':>9}  caught of those tried")
    for crate in sys.argv[3:]:
        names = named(lines(out / crate / "all.txt"))
        if not names:
            continue
        latest = {}
        for line in lines(out / crate / "results.txt"):
            kind, mutant = line.split(" ", 1)
            latest[mutant] = kind
        found = {kind: {m for m, of in latest.items() if of == kind} & names.keys()
                 for kind in ("caught", "timeout", "missed", "unviable")}
        counts = {kind: len(mutants) for kind, mutants in found.items()}
        total.update(counts)
        total["all"] += len(names)
        print(row(crate, len(names), counts))
        missed = {names[m] for m in found["missed"]}
        faults += [f"survives, and is not in {survivors}: {m}" for m in sorted(missed - may_survive.keys())]
        caught = {names[m] for m in found["caught"] | found["timeout"]}
        for name, number in may_survive.items():
            if not name.startswith(f"crates/{crate}/"):
                continue
            if name in caught:
                faults.append(f"{survivors}:{number}: it is caught: {name}")
            elif name not in names.values():
                faults.append(f"{survivors}:{number}: there is no such mutant: {name}")
    print(row("all", total["all"], total))
    print("\n".join(faults))
    return 1 if faults else 0


def row(crate, count, counts):
    detected = counts["caught"] + counts["timeout"]
    tried = detected + counts["missed"]
    share = f"{100 * detected / tried:.1f} % of {tried}" if tried else "none was tried"
    return (f"{crate:8} {count:6} {counts['caught']:7} {counts['timeout']:10} "
            f"{counts['missed']:7} {counts['unviable']:9}  {share}")


if __name__ == "__main__":
    sys.exit(main())
