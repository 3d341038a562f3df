#!/usr/bin/env python3
"""test_readme.py ROOT BUILD: every command that a README shows works, every link leads somewhere.

Each distinct command runs once, with bash, from ROOT and within a time limit, and has to end with
0; the README's folder `build` means BUILD, the build under test. A few are looked at only, each for
a reason that is printed (see LOOKED_AT); a few are skipped where something is not installed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap

import readme

SLOW = float(os.environ.get("PS_TEST_SLOW", "1"))
LIMIT_S = 180 * SLOW
FASHION = "/usr/share/datasets/fashion-mnist"

# Commands that would run this test again, or build while tests run: their syntax is checked.
LOOKED_AT = {
    "tools/setup": "it installs; tools/test has just run it",
    "tools/build": "it builds; tools/test has just run it",
    "tools/test": "it would run this test again; .ci/run runs it",
    "tools/demo": "it builds and trains; .ci/run runs it",
    ".ci/run": "it would run this test again",
}

# (what a command contains, is it there?, what to say when it is not)
NEEDS = [
    ("fashion-mnist", lambda: os.path.isdir(FASHION), "dataset-fashion-mnist is not installed"),
]

ASSIGNMENTS = re.compile(r"^(?:\w+=(?:\"[^\"]*\"|'[^']*'|\S*)\s+)*")
BUILD = re.compile(r"(?<![\w./-])build(?=/|\s|$)")


def program_and_arguments(command):
    """The words of a command behind the variables that it sets."""
    return ASSIGNMENTS.sub("", command).split()


def for_build(command, build):
    """The command, meant for the build under test."""
    quoted = "'" + build.replace("'", "'\\''") + "'"
    command = BUILD.sub(lambda _: quoted, command)
    # Meson is running: it has built everything, and its log is not to be written over.
    return re.sub(r"\bmeson test\b", "meson test --no-rebuild --logbase readme", command)


def suites_of(build):
    """Names of the suites of a build, as tools/test takes them."""
    shown = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                           capture_output=True, text=True).stdout
    return {suite.split(":")[-1] for test in json.loads(shown) for suite in test["suite"]}


def look_at(root, build, words):
    """What is wrong with a command that is not run; "" when nothing is."""
    path = os.path.join(root, words[0])
    if not os.access(path, os.X_OK):
        return "is not there, or not executable"
    done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr
    if words[0] == "tools/test":
        unknown = sorted(set(words[1:]) - suites_of(build))
        return f"no such suite: {' '.join(unknown)}" if unknown else ""
    return ""


def run(root, command):
    """What is wrong with a command that is run; "" when nothing is."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(["bash", "-c", command], cwd=root, stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            status = process.wait(LIMIT_S)
            wrong = f"ended with {status}" if status else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            wrong = f"did not end within {LIMIT_S:.0f} s"
        output.seek(0)
        # Indented, so that nobody takes its closing line for ours.
        return f"{wrong}:\n{textwrap.indent(output.read()[-4000:], '    ')}" if wrong else ""


def check_command(root, build, command):
    """(what is wrong or "", why it was skipped or "") of one command; says what it does."""
    words = program_and_arguments(command)
    if words and words[0] in LOOKED_AT:
        print(f"looked at: {command} ({LOOKED_AT[words[0]]})", flush=True)
        return look_at(root, build, words), ""
    for word, is_there, reason in NEEDS:
        if word in command and not is_there():
            print(f"skipped: {command}: {reason}")
            return "", reason
    print(f"run: {command}", flush=True)
    return run(root, for_build(command, build)), ""


def check(root, build):
    """[passed, failed, skipped] over all READMEs under `root`."""
    counts = [0, 0, 0]
    seen = set()
    for path in readme.readmes(root):
        with open(os.path.join(root, path), encoding="utf-8") as stream:
            text = stream.read()
        wrong = readme.unknown_blocks(text) + readme.dead_links(root, path, text)
        for line in wrong:
            print(f"{path}:{line}")
        counts[1 if wrong else 0] += 1
        for command in readme.commands(text):
            if command in seen:
                continue
            seen.add(command)
            broken, skipped = check_command(root, build, command)
            if broken:
                print(f"{path}: {command}: {broken}")
            counts[1 if broken else 2 if skipped else 0] += 1
    return counts


def main(arguments):
    if len(arguments) != 2:
        print("usage: test_readme.py ROOT BUILD", file=sys.stderr)
        return 2
    counts = check(*map(os.path.abspath, arguments))
    print(f"{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    return 1 if counts[1] or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
