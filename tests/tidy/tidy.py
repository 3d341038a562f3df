#!/usr/bin/env python3
"""tidy.py [ROOT]: the rules of the house that a machine can keep. Exit 1 when one is broken.

Each rule is a function from a Tree to a list of findings; each counts as one check. The table of
layers and the bounds are in layers.py. The rules have a test of their own: test_tidy.py.

  --headers CC [--flag=F]  instead: every header compiles alone, and included twice
  --format                 instead: clang-format would change nothing (exit 77 without it)
  --clang-tidy BUILD       instead: clang-tidy is content with each .c file of the program
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

import layers

SKIP = 77
PRODUCT = ("common", "server", "worker", "tools")
SCANNED = PRODUCT + ("tests", "proto", "deploy", ".ci")
TEXT_ENDINGS = (".c", ".h", ".py", ".sh", ".md", ".proto", ".build", ".txt", ".yaml", ".yml")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


class File:
    """One file of the tree; `code` is C without comments, and with empty strings."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as stream:
            self.text = stream.read()
        self.lines = self.text.split("\n")
        self.is_c = path.endswith((".c", ".h"))
        self.code = strip(self.text) if self.is_c else ""
        self.includes = INCLUDE.findall(blank_comments(self.text)) if self.is_c else []


class Tree:
    """All text files under `root` that belong to the project."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        self.folders = set()
        for top in SCANNED:
            for folder, names, files in os.walk(os.path.join(root, top)):
                names[:] = sorted(n for n in names if n != "__pycache__")
                self.add_folder(os.path.relpath(folder, root), sorted(files))
        self.add_folder(".", [n for n in sorted(os.listdir(root))
                              if n.endswith(TEXT_ENDINGS) and os.path.isfile(self.full(n))])

    def full(self, path):
        return os.path.join(self.root, path)

    def add_folder(self, folder, names):
        for name in names:
            path = os.path.normpath(os.path.join(folder, name))
            if name.endswith(TEXT_ENDINGS) or is_script(self.full(path)):
                self.files[path] = File(self.root, path)
                if name.endswith((".c", ".h")):
                    self.folders.add(os.path.normpath(folder))

    def sources(self, *tops):
        return [f for f in self.files.values() if f.is_c and f.path.startswith(tops)]

    def resolve(self, name):
        """The file that #include "name" means, or None."""
        for root in layers.INCLUDE_ROOTS:
            path = os.path.normpath(os.path.join(root, name))
            if path in self.files:
                return path
        return None


def is_script(path):
    with open(path, "rb") as stream:
        return stream.read(2) == b"#!"


# A character constant, a string, a comment; in this order the first that matches wins.
TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*""", re.S)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def blank_comments(text):
    return TOKEN.sub(lambda m: blank(m[0]) if m[0].startswith("/") else m[0], text)


def strip(text):
    """C without comments and contents of strings, on the same lines."""
    def keep_shape(match):
        token = match[0]
        return blank(token) if token.startswith("/") else token[0] + token[-1]
    return TOKEN.sub(keep_shape, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def part_of(path):
    """The line of the table that a file belongs to; None for tests. The public status is base's."""
    folder = os.path.dirname(path)
    if path.startswith("common/include/"):
        return "common/base"
    while folder:
        if folder in layers.LAYERS:
            return folder
        folder = os.path.dirname(folder)
    return None


def short(part):
    return part.rsplit("/", 1)[-1]


# ---- Layers ----------------------------------------------------------------------------------

def rule_layers(tree):
    """An include goes only to folders that the table allows."""
    found = []
    for file in tree.sources(*PRODUCT):
        part = part_of(file.path)
        if part is None:
            continue
        for quote, name in file.includes:
            found += check_include(tree, file, part, quote, name)
            if any(re.search(p, name) for p in layers.NOT_EVEN.get(part, [])):
                found.append(f"{file.path}: {part} may not include {name}")
    return found


def check_include(tree, file, part, quote, name):
    target = tree.resolve(name)
    if target is None:
        if quote == '"' and not re.search(layers.GENERATED, name):
            return [f'{file.path}: "{name}" is no file of this tree; write it from its root']
        return []
    if (quote == "<") != name.startswith("ps/"):
        return [f'{file.path}: {name}: public headers are <ps/...>, all others "folder/file.h"']
    to = part_of(target)
    allowed = layers.LAYERS[part]
    if to is None:
        return [f'{file.path}: {name} is in no layer that a program may use']
    if to != part and short(to) not in allowed:
        return [f"{file.path}: {part} may not include {to} ({name})"]
    return []


def rule_cores(tree):
    """A pure core includes only what is pure."""
    found = []
    for file in tree.sources("common/", "server/", "worker/"):
        if not re.search(r"_core\.[ch]$", file.path):
            continue
        own = part_of(file.path)
        for _, name in file.includes:
            target = tree.resolve(name)
            to = part_of(target) if target else None
            may = layers.CORE_MAY_INCLUDE + layers.CORE_MAY_ALSO.get(own, [])
            pure = to is None or to == own or short(to) in may
            if not pure or any(re.search(p, name) for p in layers.CORE_MAY_NOT_INCLUDE):
                found.append(f"{file.path}: a core may not include {name}")
    return found


def rule_table(tree):
    """Every folder with sources has a line of its own in the table of layers."""
    found = []
    for folder in sorted(tree.folders):
        parts = folder.split("/")
        inside = "/".join(parts[:2]) in layers.LAYERS and len(parts) > 2
        public = folder.startswith("common/include")
        if parts[0] in PRODUCT and folder not in layers.LAYERS and not inside and not public:
            found.append(f"{folder}: not in the table of layers (tests/tidy/layers.py)")
    return found


def rule_no_circle(tree):
    """Neither the table nor the includes of files go round in a circle."""
    by_short = {short(part): part for part in layers.LAYERS}
    table = {part: [by_short[s] for s in may if s in by_short]
             for part, may in layers.LAYERS.items()}
    files = {f.path: [t for t in (tree.resolve(n) for _, n in f.includes) if t]
             for f in tree.files.values() if f.is_c}
    return [f"a circle: {' -> '.join(c)}"
            for c in (circle(table), circle(folder_graph(tree)), circle(files)) if c]


def folder_graph(tree):
    graph = {}
    for file in tree.sources("common/", "server/", "worker/"):
        part = part_of(file.path)
        for _, name in file.includes:
            target = tree.resolve(name)
            to = part_of(target) if target else None
            if part and to and to != part:
                graph.setdefault(part, []).append(to)
    return graph


def circle(graph):
    """A circle in the graph as a list of nodes, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for to in graph.get(node, []):
            if (ring := visit(to)):
                return ring
        path.pop()
        done.add(node)
        return None

    for node in sorted(graph):
        if (ring := visit(node)):
            return ring
    return None


def rule_foreign(tree):
    """A foreign library is known to one folder only."""
    found = []
    for file in tree.sources(*PRODUCT, "tests"):
        for _, name in file.includes:
            for pattern, folders in layers.FOREIGN:
                if re.search(pattern, name) and not may_know(file.path, folders):
                    found.append(f"{file.path}: {name} belongs to {', '.join(folders)}")
    return found


def may_know(path, folders):
    """Product folders by the list; tests beside them: unit tests of the folder, or the wire's."""
    return any(path.startswith(f + "/") or f"/{short(f)}/" in "/" + path and
               path.startswith("tests/") for f in folders)


# ---- Calls and words -------------------------------------------------------------------------

def rule_banned(tree):
    """No call that writes without a bound, hides time or environment, or ends the process."""
    found = []
    for names, exceptions, why in layers.BANNED:
        call = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")
        for file in tree.sources(*PRODUCT, "tests"):
            if any(file.path == e or e.endswith("/") and file.path.startswith(e)
                   for e in exceptions):
                continue
            if "exit" in names and re.search(r"^int main\(", file.code, re.M):
                continue
            found += [f"{file.path}:{line_of(file.code, m.start())}: {m[1]}() {why}"
                      for m in call.finditer(file.code)]
    return found


# Written in pieces, or this file would be its own finding.
MARKS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")
MACHINE = re.compile(r"(?<![\w.])(/wo" + r"rk/|/ho" + r"me/\w|/ro" + r"ot/)")
LICENCE = "SPDX-" + "License"


def rule_words(tree):
    """No unfinished business, and nothing that is true on one machine only."""
    found = []
    for file in tree.files.values():
        for number, line in enumerate(file.lines, 1):
            where = f"{file.path}:{number}"
            if MARKS.search(line):
                found.append(f"{where}: finish it or open an issue: {line.strip()[:60]}")
            if MACHINE.search(line):
                found.append(f"{where}: a path of one machine: {line.strip()[:60]}")
            if LICENCE in line:
                found.append(f"{where}: the licence is the owner's to choose")
    return found


def rule_typedef(tree):
    """Structs and enums have tags; only function pointers have typedefs."""
    return [f"{file.path}:{line_of(file.code, m.start())}: write `{m[1]} ps_...` without typedef"
            for file in tree.sources(*PRODUCT, "tests")
            for m in re.finditer(r"^\s*typedef\s+(struct|enum|union)\b", file.code, re.M)]


# ---- Shape -----------------------------------------------------------------------------------

def guard_of(path):
    path = re.sub(r"^.*?include/ps/", "", path) if "include/ps/" in path else path
    name = re.sub(r"[^A-Za-z0-9]", "_", path).upper()
    return f"PS_{name}"


def rule_headers(tree):
    """A header has its guard, and then says what it is for."""
    found = []
    for file in tree.sources(*PRODUCT, "tests"):
        if not file.path.endswith(".h"):
            continue
        guard = guard_of(file.path)
        if file.lines[:2] != [f"#ifndef {guard}", f"#define {guard}"]:
            found.append(f"{file.path}: must begin with the guard {guard}")
            continue
        comment = re.match(r"#.*\n#.*\n(/\*(?!\*).*?\*/)", file.text, re.S)
        if not comment:
            found.append(f"{file.path}: needs a comment that says what it is for, after the guard")
        elif comment[1].count("\n") + 1 > layers.HEADER_COMMENT_LINES_MAX:
            found.append(f"{file.path}: its first comment is an essay; the README is the place")
    return found


def rule_first_comment(tree):
    """A source file begins with a comment."""
    return [f"{f.path}: must begin with a comment" for f in tree.sources(*PRODUCT, "tests")
            if f.path.endswith(".c") and not f.text.startswith("/*")]


def functions(file):
    """(lines, name, line) of each function: in this style a body is what stands between braces in
    column 0."""
    result, start = [], None
    for number, line in enumerate(file.code.split("\n"), 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start is not None:
            result.append((number - start - 1, name_before(file, start), start))
            start = None
    return result


def name_before(file, line):
    head = " ".join(file.code.split("\n")[max(0, line - 8):line - 1])
    names = re.findall(r"(?:START_TEST\(\s*)?(\w+)\s*[()]", re.split(r"[;}]", head)[-1])
    return names[0] if names else "?"


def rule_sizes(tree):
    """Files and functions end before they are too long to be read."""
    found = []
    for file in tree.sources(*PRODUCT, "tests"):
        if len(file.lines) - 1 > layers.FILE_LINES_MAX:
            found.append(f"{file.path}: {len(file.lines) - 1} lines, the end is "
                         f"{layers.FILE_LINES_MAX}")
        for n_lines, name, line in functions(file):
            if n_lines > layers.FUNCTION_LINES_MAX:
                found.append(f"{file.path}:{line}: {name} has {n_lines} lines, the end is "
                             f"{layers.FUNCTION_LINES_MAX}")
    return found


def rule_lines(tree):
    """Lines fit, without tabs or blanks at their end."""
    found = []
    for file in tree.files.values():
        if file.path.endswith((".md", ".txt")):
            continue
        table = False  # Aligned rows may be wider: they stand where clang-format is off.
        for number, line in enumerate(file.lines, 1):
            if "clang-format off" in line or "clang-format on" in line:
                table = "clang-format off" in line
            if len(line) > (layers.TABLE_COLUMNS_MAX if table else layers.COLUMNS_MAX):
                found.append(f"{file.path}:{number}: {len(line)} columns")
            if line != line.rstrip() or (file.is_c and "\t" in line):
                found.append(f"{file.path}:{number}: a tab, or blanks at the end")
    return found


# ---- Build files and documents ---------------------------------------------------------------

def meson_text(tree, path):
    """All build files that could name `path`: its folder's and those above."""
    texts, folder = [], os.path.dirname(path)
    while True:
        build = os.path.normpath(os.path.join(folder, "meson.build"))
        if build in tree.files:
            texts.append(tree.files[build].text)
        if not folder:
            return "\n".join(texts)
        folder = os.path.dirname(folder)


def rule_built(tree):
    """Every source file and every Python test is named in a meson.build."""
    found = []
    for file in tree.files.values():
        name = os.path.basename(file.path)
        is_test = name.startswith("test_") and name.endswith(".py")
        if not (file.path.endswith(".c") or is_test):
            continue
        stem = re.sub(r"^test_|\.\w+$", "", name)
        text = meson_text(tree, file.path)
        if f"{name}'" not in text and not named_by_loop(text, stem):
            found.append(f"{file.path}: named in no meson.build, so never built")
    return found


def named_by_loop(text, stem):
    """Build files may make names in a loop: foreach name : ['a', 'b'] ... files('test_@0@.c')."""
    return "foreach" in text and re.search(rf"'(?:[\w/]*/)?(?:test_|fuzz_)?{stem}'", text)


def rule_suites(tree):
    """Every test belongs to a suite."""
    found = []
    for file in tree.files.values():
        if os.path.basename(file.path) != "meson.build":
            continue
        code = re.sub(r"#[^\n]*", "", file.text)
        for match in re.finditer(r"(?<!\w)test\s*\(", code):
            if "suite:" not in arguments(code, match.end()):
                found.append(f"{file.path}:{line_of(code, match.start())}: a test in no suite")
    return found


def arguments(text, start):
    depth, at = 1, start
    while at < len(text) and depth > 0:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start:at]


def rule_readmes(tree):
    """Every folder of the program says what it is for."""
    wanted = [f for f in layers.LAYERS if f in tree.folders]
    wanted += [f for f in layers.README_FOLDERS if os.path.isdir(tree.full(f))]
    return [f"{folder}: has no README.md" for folder in sorted(set(wanted))
            if os.path.join(folder, "README.md") not in tree.files]


RULES = [rule_layers, rule_cores, rule_table, rule_no_circle, rule_foreign,
         rule_banned, rule_words, rule_typedef, rule_headers, rule_first_comment, rule_sizes,
         rule_lines, rule_built, rule_suites, rule_readmes]


def report_longest(tree):
    sources = tree.sources(*PRODUCT, "tests")
    print("longest files:")
    for file in sorted(sources, key=lambda f: -len(f.lines))[:5]:
        print(f"  {len(file.lines) - 1:5}  {file.path}")
    print("longest functions:")
    found = [(n, name, file.path) for file in sources for n, name, _ in functions(file)]
    for n_lines, name, path in sorted(found, reverse=True)[:5]:
        print(f"  {n_lines:5}  {name}  {path}")


def check_rules(tree):
    """Run all rules; print findings. Returns the number of rules that are broken."""
    n_broken = 0
    for rule in RULES:
        findings = rule(tree)
        n_broken += 1 if findings else 0
        if findings:
            print(f"broken: {rule.__doc__.strip()}")
        for finding in findings:
            print(f"  {finding}")
    return n_broken


# ---- Modes that need a compiler or a formatter -----------------------------------------------

def run_all(commands):
    """Run (name, command, input) by two; the list of (name, output) of those that failed."""
    def run(job):
        name, command, text = job
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return name, done.returncode, done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        return [(n, out) for n, code, out in pool.map(run, commands) if code != 0]


def check_headers(tree, compiler, flags):
    base = [compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
            '-DPS_VERSION="0"'] + flags
    base += [f"-I{tree.full(r)}" for r in layers.INCLUDE_ROOTS[:-1]]
    jobs = []
    for file in tree.sources(*PRODUCT, "tests"):
        if not file.path.endswith(".h"):
            continue
        line = f'#include "{tree.full(file.path)}"\n'
        jobs.append((file.path, base + ["-std=gnu11", "-x", "c", "-"], line * 2))
        if "include/ps/" in file.path:
            jobs.append((file.path + " (C99)",
                         base + ["-std=c99", "-pedantic-errors", "-x", "c", "-"], line * 2))
            jobs.append((file.path + " (C++17)",
                         base + ["-std=c++17", "-pedantic-errors", "-x", "c++", "-"], line * 2))
    failed = run_all(jobs)
    for name, output in failed:
        print(f"{name} does not compile alone or twice:\n{output}")
    print(f"{len(jobs) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed or not jobs else 0


def check_clang_tidy(tree, build):
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        print("skipped: clang-tidy is not installed (tools/setup --dev)")
        return SKIP
    jobs = [(f.path, [tool, "-p", build, "--quiet", tree.full(f.path)], "")
            for f in tree.sources(*PRODUCT) if f.path.endswith(".c")]
    failed = run_all(jobs)
    for name, output in failed:
        print(f"{name}:\n{output}")
    print(f"{len(jobs) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed or not jobs else 0


def check_format(tree):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        print("skipped: clang-format is not installed (tools/setup --dev)")
        return SKIP
    files = tree.sources(*PRODUCT, "tests")
    jobs = [(f.path, [tool, "--dry-run", "-Werror", "--style=file", tree.full(f.path)], "")
            for f in files]
    failed = run_all(jobs)
    for name, output in failed:
        print(f"{name}: run {os.path.basename(tool)} -i on it\n{output[:400]}")
    print(f"{len(jobs) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed or not jobs else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--headers", metavar="CC")
    parser.add_argument("--format", action="store_true")
    parser.add_argument("--clang-tidy", metavar="BUILD")
    parser.add_argument("--flag", action="append", default=[], help="one more for CC")
    options = parser.parse_args()
    tree = Tree(options.root)
    if options.headers:
        return check_headers(tree, options.headers, options.flag)
    if options.clang_tidy:
        return check_clang_tidy(tree, options.clang_tidy)
    if options.format:
        return check_format(tree)
    report_longest(tree)
    n_broken = check_rules(tree)
    print(f"{len(RULES) - n_broken} passed, {n_broken} failed, 0 skipped")
    return 1 if n_broken else 0


if __name__ == "__main__":
    sys.exit(main())
