#!/usr/bin/env python3
"""What must hold for every .proto: test_proto.py SET PROTOC, the compiled set and the compiler.

protobuf-c unpacks a message inside a message by calling itself, without a limit: a message that can
contain itself lets a peer overrun the stack with some kilobytes. So none may.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SET, PROTOC = sys.argv[1:3]

spec = importlib.util.spec_from_file_location("embed", f"{ROOT}/proto/embed.py")
embed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(embed)

PLANTED = """
syntax = "proto3";
package planted;
message Leaf { uint32 n = 1; }
message Itself { Leaf leaf = 1; repeated Itself more = 2; }
message One { Leaf leaf = 1; oneof what { Two two = 2; string text = 3; } }
message Two { message Inner { map<string, One> ones = 1; } Inner inner = 1; Kind kind = 2; }
enum Kind { NONE = 0; SOME = 1; }
service S { rpc Get(One) returns (stream Two); }
"""


def planted():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/planted.proto", "w") as f:
            f.write(PLANTED)
        subprocess.run(
            [PROTOC, f"--proto_path={folder}", f"--descriptor_set_out={folder}/set",
             f"{folder}/planted.proto"],
            check=True,
        )
        return embed.read_set(f"{folder}/set")


class Proto(unittest.TestCase):
    def test_no_message_can_contain_itself(self):
        files = embed.read_set(SET)
        self.assertGreater(sum(len(file.uses) for file in files), 50)
        self.assertEqual(embed.cycles(files), [])

    def test_every_proto_of_the_tree_is_in_the_set(self):
        names = {file.name for file in embed.read_set(SET)}
        for folder, _, files in os.walk(f"{ROOT}/proto"):
            for name in files:
                if name.endswith(".proto"):
                    self.assertIn(os.path.relpath(f"{folder}/{name}", f"{ROOT}/proto"), names)

    def test_a_planted_cycle_is_found(self):
        self.assertEqual(
            embed.cycles(planted()),
            [
                ["planted.Itself", "planted.Itself"],
                ["planted.One", "planted.Two", "planted.Two.Inner",
                 "planted.Two.Inner.OnesEntry", "planted.One"],
            ],
        )

    def test_every_kind_of_symbol_is_listed(self):
        symbols = [name for name, _ in embed.symbols_of(planted())]
        for name in (
            "planted.Leaf", "planted.Leaf.n", "planted.One.what", "planted.One.text",
            "planted.Two.Inner", "planted.Two.Inner.ones", "planted.Kind", "planted.SOME",
            "planted.S", "planted.S.Get",
        ):
            self.assertIn(name, symbols)
        self.assertEqual(symbols, sorted(symbols))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
