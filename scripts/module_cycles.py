#!/usr/bin/env python3
"""Modules that use each other in a circle.

    module_cycles.py CRATE...     the folder of each

Among the modules of one folder (and whatever is in folders of theirs), an edge goes from
the one whose code names an item to the one that has it. What the crate's root re-exports
counts as the module's that it comes from; a module and its own children may name each
other. Tests are left out. Says each circle, and fails if there is one.
"""

import re
import sys
from pathlib import Path


def code(text):
    """Without comments, strings and tests."""
    # One pass, since each may hold what begins another: a string a comment, a comment a quote.
    # A string goes on over lines that end with a backslash.
    one = r'r(#*)".*?"\1|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.[^\']*)\'|//[^\n]*|/\*.*?\*/'
    text = re.sub(one, lambda m: "" if m[0].startswith("/") else '""', text, flags=re.S)
    text = re.sub(r"^( *)#\[cfg\((?:all\()?test\b[^\]]*\]\n *mod \w+ \{.*?^\1\}", "", text, flags=re.S | re.M)
    # The attribute, further ones, and the declaration that they stand before.
    item = r"(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))? )?(?:mod \w+|extern [^;]*|use [^;]*);"
    return re.sub(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*" + item, "", text)


def expand(path):
    """The paths that a `use` with braces stands for."""
    head, brace, rest = path.partition("{")
    if not brace:
        return [path.strip()]
    parts, depth, start = [], 0, 0
    for i, c in enumerate(rest):
        if c == "{":
            depth += 1
        elif c == "}":
            if depth == 0:
                parts.append(rest[start:i])
                break
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(rest[start:i])
            start = i + 1
    return [e for part in parts if part.strip() for e in expand(head.strip() + part.strip())]


def references(text):
    """All paths that begin at the crate or at a parent, as lists of names."""
    found = []
    for use in re.findall(r"\buse ([^;]+);", text):
        found += [p for p in expand(use) if p.startswith(("crate::", "super::", "self::"))]
    found += re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse [^;]+;", "", text))
    return [re.sub(r"\s+as \w+$", "", p).split("::") for p in found]


def modules(root):
    """The code of each module, by its path."""
    all_of = {}
    for file in sorted(root.rglob("*.rs")):
        name = list(file.relative_to(root).with_suffix("").parts)
        if "tests" in name or "bin" in name:
            continue
        if name[-1] in ("mod", "lib", "main"):
            name.pop()
        all_of[tuple(name)] = code(file.read_text())
    return all_of


def exports(text):
    """Where the root has a name from, for those that it re-exports."""
    where = {}
    for use in re.findall(r"\bpub(?:\(crate\))? use ([^;]+);", text):
        for path in expand(use):
            parts = re.sub(r"^(crate|self)::", "", path).split("::")
            if len(parts) > 1:
                where[parts[-1]] = parts[:-1]
    return where


def edges(all_of):
    """For each folder, the pairs of its modules of which one names the other."""
    root = exports(all_of.get((), ""))
    graphs = {}
    for name, text in all_of.items():
        if not name:
            continue
        for first, *rest in references(text):
            if first == "crate":
                at = list(rest)
            else:
                at = list(name) if first == "self" else list(name)[:-1]
                while rest and rest[0] == "super":
                    at, rest = at[:-1], rest[1:]
                at += rest
            if at and (at[0],) not in all_of:
                at = root.get(at[0], [])
            while at and tuple(at) not in all_of:
                at.pop()
            shared = 0
            while shared < min(len(at), len(name)) and at[shared] == name[shared]:
                shared += 1
            if shared < len(at) and shared < len(name):
                graph = graphs.setdefault("::".join(name[:shared]), {})
                graph.setdefault(name[shared], set()).add(at[shared])
                graph.setdefault(at[shared], set())
    return graphs


def circles(graph):
    """Groups of more than one module that all reach each other."""

    def reach(start):
        seen, todo = set(), [start]
        while todo:
            for other in graph[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        return seen

    reached = {module: reach(module) for module in graph}
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(sorted(group) for group in groups)


def main():
    failed = False
    for argument in sys.argv[1:]:
        for folder, graph in sorted(edges(modules(Path(argument) / "src")).items()):
            for group in circles(graph):
                place = f"{argument} {folder}".strip()
                among = {m: sorted(graph[m] & set(group)) for m in group}
                print(f"{place}: modules use each other in a circle:")
                for module, others in among.items():
                    print(f"    {module} -> {', '.join(others)}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
