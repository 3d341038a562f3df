"""The shared library as a program outside the tree sees it: the example of its README, for one."""

import os
import re
import shutil
import signal
import subprocess
import unittest

import ps_test

LIBRARY = os.environ.get("PS_LIBRARY", "build/worker/client/lib/libpsclient.so")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDES = [f"-I{ROOT}/common/include", f"-I{ROOT}/worker/client/include"]

# Opens a client, waits until it is told to go on, closes it. Counts the threads that have a signal
# unblocked, the main one apart.
OPENER = r"""
#include <stdio.h>
#include <string.h>
#include <ps/client.h>
static void say(void *arg, const char *line) { fprintf((FILE *)arg, "line: %s\n", line); }
int main(int argc, char **argv)
{
    struct ps_client_options options;
    struct ps_client *client = NULL;
    struct ps_error err;
    enum ps_status status;
    memset(&options, 0, sizeof(options));
    memset(&err, 0, sizeof(err));
    options.coordinator = argv[1];
    options.open_timeout_ms = 1500;
    options.give_up_ms = 3000;
    if (argc > 2) { ps_client_log_to(say, stdout); }
    status = ps_client_open(&options, &client, &err);
    printf("%d %s\n", (int)status, err.text);
    fflush(stdout);
    if (status == PS_OK) {
        struct ps_view view;
        memset(&view, 0, sizeof(view));
        while (view.lost.status == PS_OK && !view.fenced) {
            ps_client_wait_change(client, &view, 1000);
        }
        printf("%s\n", view.lost.text);
        ps_client_close(client);
    }
    return 0;
}
"""


def readme_example():
    with open(f"{ROOT}/worker/client/README.md", encoding="utf-8") as stream:
        return re.search(r"```c\n(.*?)```", stream.read(), re.S)[1]


class Client(ps_test.Case):
    ROWS = 60

    def compile(self, text, *flags, compiler="cc", ending="c"):
        source = f"{self.folder}/program.{ending}"
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(text)
        folder = os.path.dirname(os.path.abspath(LIBRARY))
        subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", *INCLUDES, source,
                        f"-L{folder}", "-lpsclient", f"-Wl,-rpath,{folder}",
                        "-o", f"{self.folder}/program"], check=True)
        return f"{self.folder}/program"

    def server(self):
        server = self.start("--listen", "127.0.0.1:0", "--servers", "1", program=ps_test.SERVER)
        return server, server.wait_line(r"ready address=(\S+)", stdout=True)[1]

    def test_the_example_of_the_readme_finds_the_line(self):
        program = self.compile(readme_example(), "-std=c99", "-pedantic-errors")
        _, address = self.server()
        status, stdout, stderr = ps_test.run(address, program=program)
        self.assertEqual((status, stderr), (0, ""))
        self.assertEqual(stdout, "y = 3.000 x + 2.000, loss 0.000000\n")

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
    def test_a_cplusplus_program_hears_of_a_lost_server_and_signals_are_its_own(self):
        program = self.compile(OPENER, "-std=c++11", "-pedantic-errors", compiler="c++",
                               ending="cc")
        server, address = self.server()
        client = self.start(address, program=program)
        client.wait_line("^0 ", stdout=True)
        tasks = f"/proc/{client.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/status", encoding="utf-8") as stream:
                text = stream.read()
            blocked = int(re.search(r"SigBlk:\s*(\w+)", text)[1], 16)
            caught = int(re.search(r"SigCgt:\s*(\w+)", text)[1], 16)
            is_main = int(task) == client.process.pid
            self.assertEqual(blocked & 1 << signal.SIGTERM - 1 == 0, is_main, text)
            self.assertEqual(caught & 1 << signal.SIGTERM - 1, 0, text)
        server.process.send_signal(signal.SIGKILL)
        client.wait_line("unreachable since", stdout=True)
        self.assertEqual(client.wait(), 0)
        self.assertEqual(client.text(), "")  # Nothing on standard error.

    def test_lines_of_the_log_go_where_they_are_wanted_and_nowhere_else(self):
        program = self.compile(OPENER)
        for asked in (False, True):
            server, address = self.server()
            client = self.start(address, *["log"] * asked, program=program)
            client.wait_line("^0 ", stdout=True)
            server.process.send_signal(signal.SIGKILL)
            client.wait()
            self.assertEqual("event=cluster.lost" in client.stdout, asked, client.stdout)
            self.assertEqual(client.text(), "")

    def test_nobody_there_is_said_within_the_time_for_opening_and_proxies_do_not_matter(self):
        program = self.compile(OPENER)
        names = ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        proxies = {name: "http://127.0.0.1:1" for name in names}
        status, stdout, stderr = ps_test.run(f"127.0.0.1:{ps_test.free_port()}",
                                             program=program, timeout=20)
        self.assertEqual((status, stderr), (0, ""))
        self.assertRegex(stdout, r"^(5|6) coordinator \(127.0.0.1:\d+\): ")
        _, address = self.server()
        client = self.start(address, program=program, env=proxies)
        client.wait_line("^0 ", stdout=True)


if __name__ == "__main__":
    ps_test.main()
