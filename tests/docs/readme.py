"""What READMEs promise that a machine can check: their commands and their links, found.

A command stands in a block that begins with ```sh, one to a line: a comment behind it is dropped, a
line that ends with a backslash goes on in the next. What is to be read and not to be run stands in
a ```text block, a picture in one without a name.
"""

import os
import re

# Names of blocks that nobody runs. Another name (bash, console) is refused, or a command that
# nobody tries could hide behind it.
SILENT = ("", "text", "c", "json", "proto", "python")

FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(\S*)")
COMMENT = re.compile(r"(^|\s)#\s.*$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)[^)]*\)")


def readmes(root):
    """Paths of all README.md under `root`, relative to it; build folders are not looked into."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if n != ".git" and not n.startswith("build"))
        if "README.md" in files:
            found.append(os.path.relpath(os.path.join(folder, "README.md"), root))
    return sorted(found)


def blocks(text):
    """[(line number, name, lines)] of the fenced blocks."""
    found, fence = [], None
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if fence is None and match:
            fence = match[1]
            found.append((number, match[2], []))
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is not None:
            found[-1][2].append(line)
    return found


def commands(text):
    """The commands of the ```sh blocks, in order."""
    found, begun = [], ""
    for _, name, lines in blocks(text):
        if name != "sh":
            continue
        for line in lines:
            line = COMMENT.sub("", line).strip()
            if line.endswith("\\"):
                begun += line[:-1].rstrip() + " "
            elif begun or line:
                found.append((begun + line).strip())
                begun = ""
        if begun:
            found.append(begun.strip())
            begun = ""
    return found


def unknown_blocks(text):
    """Blocks of a name that is neither run nor known to be only read."""
    return [f"{number}: ```{name} is neither ```sh, which is run, nor ```text"
            for number, name, _ in blocks(text) if name not in SILENT + ("sh",)]


def dead_links(root, path, text):
    """Links of the README `path` to files that are not there."""
    found, inside = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            inside = not inside
        for target in [] if inside else LINK.findall(line):
            file = target.split("#", maxsplit=1)[0]
            if re.match(r"[a-z]+:", target) or not file:
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(path), file)):
                found.append(f"{number}: {target} is not there")
    return found
