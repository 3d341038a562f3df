"""What `meson install` put down: where it is, how to build a program against it, what it promises.

Nothing of the source tree is used to build or to run a program, except its own one file.
"""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for beside in ("integration", "docs"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), beside))
import ps_test  # pylint: disable=wrong-import-position

BUILD = os.environ.get("PS_INSTALL_BUILD", "build")
SANITIZE = os.environ.get("PS_INSTALL_SANITIZE", "none")
COMPILER = os.environ.get("PS_INSTALL_COMPILER", "gcc")  # What the build under test was made with.

PROGRAMS = ("push_pull", "custom_model", "part_sums", "monitor", "api_tour")
HEADERS = ("ps/client.h", "ps/types.h", "ps/status.h")

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]
COMPILERS = {"gcc": {"c": "gcc", "c++": "g++"}, "clang": {"c": "clang", "c++": "clang++"}}
LANGUAGES = {"c99": "c", "c17": "c", "c++11": "c++", "c++17": "c++"}
STANDARDS = ("c99", "c17", "c++17")  # Of the programs; the headers bear all.

COMMENT = re.compile(r"/\*.*?\*/", re.S)


def command(*args, env=None, cwd=None, stdin=None, timeout=120):
    """Run it to its end; what it printed. An error when it fails."""
    done = subprocess.run(list(map(str, args)), env=env, cwd=cwd, input=stdin, text=True,
                          capture_output=True, check=False, timeout=timeout * ps_test.SLOW)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, args))}: ended with {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


class Prefix:
    """An installation into `folder`, an empty one."""

    def __init__(self, folder):
        command("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder)
        self.root = folder
        self.pc = self.find("psclient.pc")
        self.lib = os.path.dirname(self.find("libpsclient.so"))
        self.include = os.path.dirname(os.path.dirname(self.find("client.h")))
        self.bin = os.path.dirname(self.find("ps-run"))
        # No DESTDIR was known when psclient.pc was written. One that looks for its prefix beside
        # itself does not need to be told where all of it stands.
        self.sysroot = None if "${pcfiledir}" in read(self.pc) else folder

    def find(self, name):
        found = [os.path.join(at, name) for at, _, names in os.walk(self.root) if name in names]
        if len(found) != 1:
            raise AssertionError(f"{name} was installed {len(found)} times: {found}")
        return found[0]

    def environment(self):
        """What a user sets for an installation that the system does not know."""
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("PKG_CONFIG")}
        env["PKG_CONFIG_PATH"] = os.path.dirname(self.pc)
        env["LD_LIBRARY_PATH"] = self.lib
        if self.sysroot:
            env["PKG_CONFIG_SYSROOT_DIR"] = self.sysroot
        return env

    def pkg_config(self, *args):
        return command("pkg-config", *args, "psclient", env=self.environment())

    def flags(self, *more):
        return self.pkg_config("--cflags", "--libs", *more).split()

    def program(self, name):
        return os.path.join(self.bin, name)


def compiler(name, standard):
    """The command for a standard; None when it is not installed."""
    return shutil.which(COMPILERS[name][LANGUAGES[standard]])


def can_link(name):
    """A library that watches itself needs the same runtime in the program, of the same compiler."""
    return SANITIZE == "none" or name == COMPILER


def sanitize():
    return [] if SANITIZE == "none" else [f"-fsanitize={SANITIZE}"]


def build(prefix, source, name, standard, out, static=False):
    """Compile and link one source file as a user would."""
    language = ["-x", LANGUAGES[standard], f"-std={standard}"]
    path = os.path.join(HERE, source + ".c")
    flags = prefix.flags(*(["--static"] if static else []))
    link = sanitize() + ["-o", out, *flags, "-lm"]
    if not can_link(name):
        link = ["-c", "-o", out + ".o", *[f for f in flags if f.startswith(("-I", "-D"))]]
    command(compiler(name, standard), *language, *WARNINGS, "-O1", path, *link)
    return out


# ---- Headers --------------------------------------------------------------------------------


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def functions(text):
    """{name: line of the declaration} of a header."""
    code = COMMENT.sub(lambda m: blank(m[0]), text)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: blank(m[0]), code, flags=re.M)
    # What stands between braces (fields, not functions) says nothing here; extern "C" { does not
    # stand behind a struct.
    code = re.sub(r"\b(?:struct|enum)\s+\w+\s*\{[^}]*\}", lambda m: blank(m[0]), code)
    found = {}
    for match in re.finditer(r"\b(ps_\w+)\s*\([^;{}]*\)\s*;", code):
        found[match[1]] = code.count("\n", 0, match.start()) + 1
    return found


def undocumented(text):
    """Functions without a /** comment: right before, or before others that stand in one block."""
    lines = text.split("\n")
    found = []
    for name, line in functions(text).items():
        at = line - 1
        while at > 0 and lines[at - 1].strip() and not lines[at - 1].strip().endswith("*/"):
            at -= 1
        while at > 0 and lines[at - 1].strip() and not lines[at - 1].lstrip().startswith("/*"):
            at -= 1
        if at == 0 or not lines[at - 1].lstrip().startswith("/**"):
            found.append(name)
    return found


def uses(name):
    """Programs of this folder that call the function."""
    return [program for program in PROGRAMS if re.search(
        rf"\b{name}\s*\(", COMMENT.sub("", read(os.path.join(HERE, program + ".c"))))]


# ---- The library ----------------------------------------------------------------------------


def dynamic(path, tag):
    """Values of one tag (NEEDED, SONAME, RUNPATH) of a shared object."""
    text = command("readelf", "-d", "-W", path, env={**os.environ, "LC_ALL": "C"})
    return re.findall(rf"\({tag}\)[^\[]*\[([^\]]*)\]", text)


def exported(path):
    """Names of the functions and data that a shared object defines; not those of its versions."""
    rows = [row.split() for row in
            command("nm", "-D", "--defined-only", "--without-symbol-versions", path).splitlines()]
    return sorted(row[-1] for row in rows if row[-2] != "A")


def libraries(flags):
    return [flag[2:] for flag in flags if flag.startswith("-l")]
