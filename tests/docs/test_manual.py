#!/usr/bin/env python3
"""test_manual.py FOLDER BUILD PROGRAM...: manual pages and completions, as the build made them.

They are written from the rows that --help prints. Here each is compared with --help, and given to
the programs that it is for: mandoc, bash, zsh, fish. What is not installed is skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER, BUILD, *PATHS = sys.argv[1:]
PROGRAMS = {os.path.basename(path): path for path in PATHS}
JOB = [name for name in PROGRAMS if name != "ps-datagen"]  # Whose settings a job file has.
PAGES = [f"{name}.1" for name in PROGRAMS] + ["ps-config.5"]


def run(*args, **kwargs):
    return subprocess.run(
        args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **kwargs
    )


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


def read(name):
    with open(f"{FOLDER}/{name}", encoding="utf-8") as f:
        return f.read()


def help_of(name):
    return run(PROGRAMS[name], "--help").stdout


def flags_of(name):
    """The flags of --help, as they stand at the beginnings of lines."""
    flags = re.findall(r"^  (--[a-z0-9-]+)", help_of(name), re.M)
    assert len(flags) > 5 and "--help" in flags, flags
    return flags


def commands_of(name):
    """The words under the heading Commands of --help."""
    block = re.search(r"^Commands\n((?:  .*\n)+)", help_of(name), re.M)
    return re.findall(r"^  ([a-z-]+)", block.group(1), re.M) if block else []


def bash_offers(name, *words):
    """What bash offers for the last of `words`."""
    script = (
        f'source "{FOLDER}/{name}.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));'
        f" _{name.replace('-', '_')}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = run("bash", "--norc", "-uc", script, "bash", name, *words)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split("\n")[:-1]


class Manual(unittest.TestCase):
    @needs("mandoc")
    def test_mandoc_finds_nothing_to_say_about_the_pages(self):
        for page in PAGES:
            done = run("mandoc", "-Tlint", page, cwd=FOLDER)  # It looks there for the others.
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), page)

    @needs("mandoc")
    def test_each_flag_and_command_of_help_is_in_the_page(self):
        for name in PROGRAMS:
            page = run("mandoc", "-Tutf8", "-O", "width=200", f"{FOLDER}/{name}.1").stdout
            page = re.sub(".\b", "", page)
            for flag in flags_of(name):
                self.assertRegex(page, rf"(?m)^ +{flag}(\s|$)", f"{name}.1")
            for command in commands_of(name):
                self.assertRegex(page, rf"(?m)^ +{command}( |$)", f"{name}.1")

    @needs("mandoc")
    def test_each_setting_of_each_program_is_in_the_page_of_the_job_file(self):
        page = run("mandoc", "-Tutf8", "-O", "width=200", f"{FOLDER}/ps-config.5").stdout
        page = re.sub(".\b", "", page)
        for name in JOB:
            printed = run(PROGRAMS[name], "--print-config").stdout
            keys = re.findall(r"^  #?([a-z0-9-]+):", printed, re.M)
            self.assertGreater(len(keys), 2)
            for key in keys:
                self.assertRegex(page, rf"(?m)^ +{key}: ")

    def test_psctl_has_commands_and_its_page_describes_them(self):
        self.assertIn("status", commands_of("psctl"))
        for command in commands_of("psctl"):
            self.assertIn(f".It Cm \\&{command}\n", read("psctl.1"))

    def test_the_example_of_the_page_is_a_job_file(self):
        example = re.search(r"\.Bd -literal.*?\n(.*?)\.Ed", read("ps-config.5"), re.S).group(1)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(example)
            f.flush()
            for name in JOB:
                done = run(PROGRAMS[name], "--config", f.name, "--print-config")
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        self.assertIn("hidden: [128, 64]", example)


class Completion(unittest.TestCase):
    def test_bash_offers_each_flag_and_command_of_help(self):
        for name in PROGRAMS:
            self.assertEqual(sorted(bash_offers(name, "--")), sorted(flags_of(name)), name)
            if commands_of(name):
                self.assertEqual(bash_offers(name, ""), commands_of(name), name)

    def test_bash_offers_what_fits(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/a folder")
            open(f"{folder}/a file", "w").close()
            rows = [
                ("ps-server", ["--li"], ["--listen"]),
                ("ps-server", ["--listen", ""], []),
                ("ps-server", ["--log-level", "i"], ["info"]),
                ("ps-server", ["--log-level", "=", "wa"], ["warn"]),
                ("ps-server", ["--log-level", "="], ["none", "error", "warn", "info", "debug"]),
                ("ps-server", ["--config", f"{folder}/a fi"], [f"{folder}/a file"]),
                ("ps-server", ["--data-dir", f"{folder}/a"], [f"{folder}/a folder"]),
                ("ps-worker", ["--no-s"], ["--no-shuffle"]),
                ("ps-worker", ["--optimizer", "adam"], ["adam", "adamw"]),
                ("ps-worker", ["--lr", "0.1", "--sch"], ["--schedule"]),
                ("psctl", ["st"], ["status"]),
                ("psctl", ["status", "--js"], ["--json"]),
                ("ps-run", ["--zzz"], []),
            ]
            for name, words, want in rows:
                with self.subTest(name=name, words=words):
                    got = [word for word in bash_offers(name, *words) if word]
                    self.assertEqual(got, want)

    @needs("zsh")
    def test_zsh_takes_the_files_and_they_have_each_flag(self):
        for name in PROGRAMS:
            done = run("zsh", "-fn", f"{FOLDER}/_{name}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            text = read(f"_{name}")
            self.assertTrue(text.startswith(f"#compdef {name}\n"))
            for flag in flags_of(name):
                self.assertRegex(text, rf"(?m)^  '{flag}=?\[")
            for command in commands_of(name):
                self.assertRegex(text, rf'[( ]{command}\\:"')

    @needs("fish")
    def test_fish_takes_the_files_and_offers_each_flag_and_command(self):
        def offers(name, line):
            script = f'source "{FOLDER}/{name}.fish"; complete -C "$argv[1]"'
            with tempfile.TemporaryDirectory() as home:
                env = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home}
                done = run("fish", "--no-config", "-c", script, f"{name} {line}", env=env)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            return [word.split("\t")[0] for word in done.stdout.splitlines()]

        for name in PROGRAMS:
            self.assertEqual(sorted(offers(name, "--")), sorted(flags_of(name)), name)
            if commands_of(name):
                self.assertEqual(sorted(offers(name, "")), sorted(commands_of(name)))
        self.assertEqual(offers("ps-server", "--log-level wa"), ["warn"])


class Installed(unittest.TestCase):
    def test_each_goes_where_man_and_the_shells_look(self):
        done = run("meson", "introspect", "--installed", BUILD)
        self.assertEqual(done.returncode, 0, done.stderr)
        places = set(json.loads(done.stdout).values())
        for name in PROGRAMS:
            for end in (
                f"/man/man1/{name}.1",
                f"/bash-completion/completions/{name}.bash",
                f"/zsh/site-functions/_{name}",
                f"/fish/vendor_completions.d/{name}.fish",
            ):
                self.assertTrue(any(place.endswith(end) for place in places), end)
        self.assertTrue(any(place.endswith("/man/man5/ps-config.5") for place in places))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
