"""Fetches source packages of Debian's, with a list of sources of our own."""

import pathlib
import platform
import shutil
import subprocess

SOURCES = """\
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: {release}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def fetch(package, work):
    """Fetches the files of a source package into a directory below `work`, and gives that."""
    into = work / "source" / package
    if list(into.glob("*.dsc")):
        return into
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        raise OSError(f"its source is fetched on Debian alone; this is {system['PRETTY_NAME']}")
    into.mkdir(parents=True, exist_ok=True)
    parts, lists = work / "apt" / "sources", work / "apt" / "lists"
    parts.mkdir(parents=True, exist_ok=True)
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    text = SOURCES.format(release=system.get("VERSION_CODENAME", "stable"))
    (parts / "source.sources").write_text(text)
    apt = [
        "apt-get", "-qq", "-o", "Dir::Etc::SourceList=/dev/null",
        "-o", f"Dir::Etc::SourceParts={parts}", "-o", f"Dir::State::Lists={lists}",
        "-o", "APT::Sandbox::User=root",
    ]  # fmt: skip
    call([*apt, "update"], into)
    call([*apt, "source", "--download-only", package], into)
    return into


def unpack(package, work, *members):
    """The upstream tree of a package, or these parts of it."""
    tree = work / "source" / f"{package}-tree"
    if not tree.exists():
        (archive,) = fetch(package, work).glob("*.orig.tar.*z")
        unfinished = tree.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        patterns = ["--wildcards", *members] if members else []
        call(["tar", "-xf", archive, "--strip-components=1", *patterns], unfinished)
        unfinished.rename(tree)
    return tree


def call(command, directory):
    """Runs a command that has to succeed, quietly."""
    subprocess.run(
        list(map(str, command)), cwd=directory, check=True, capture_output=True, text=True
    )
