"""The test of the checker: small histories with one thing wrong, each found and named."""

import json
import os
import shutil
import tempfile
import unittest

import history


def push(t, op, keys, counter=0, n=1, client=0):
    return {"t": t, "c": client, "type": "invoke", "f": "push", "op": op, "keys": keys,
            "counter": counter, "n": n}


def end(t, op, kind="ok", client=0):
    return {"t": t, "c": client, "type": kind, "f": "push", "op": op}


def read(t, op, keys, rows, counter=0, zero=0, client=0):
    return [{"t": t, "c": client, "type": "invoke", "f": "read", "op": op},
            {"t": t + 1, "c": client, "type": "ok", "f": "read", "op": op, "keys": keys,
             "rows": rows, "zero": [zero] + 7 * [0], "counter": [counter] + 15 * [0]}]


def finals(t, rows, counter, zero=0):
    lines = [{"t": t, "c": 99, "type": "invoke", "f": "all"}]
    lines += [{"t": t + 1, "c": 99, "type": "final", "key": k, "row": r} for k, r in rows.items()]
    lines.append({"t": t + 2, "c": 99, "type": "ok", "f": "all", "zero": [zero] + 7 * [0],
                  "counter": [counter] + 15 * [0]})
    return lines


ONE, TWO = [1.0, 2.0], [2.0, 4.0]


class History(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ps-history-")
        self.addCleanup(shutil.rmtree, self.folder)

    def judge(self, lines, ways_back=(), tail=""):
        path = os.path.join(self.folder, "history")
        with open(path, "w", encoding="ascii") as f:
            f.write("".join(json.dumps(line) + "\n" for line in lines) + tail)
        return history.check([path], ways_back)

    def assert_found(self, verdict, word):
        self.assertEqual(verdict.n_wrong, 1, verdict.text())
        self.assertIn(word, verdict.wrong[0])

    def test_what_is_acknowledged_and_there_once_is_fine(self):
        verdict = self.judge([push(1, 0, [7, 8]), end(2, 0), *read(3, 0, [7], ONE, counter=1),
                              *finals(9, {7: ONE, 8: ONE}, 1)])
        self.assertEqual(verdict.wrong, [])
        self.assertEqual((verdict.acked, verdict.reads, verdict.rows), (1, 1, 2))

    def test_an_acknowledged_push_that_is_lost(self):
        lines = [push(1, 0, [7, 8], n=0), end(2, 0), *finals(9, {7: ONE}, 0)]
        self.assert_found(self.judge(lines), "LOST client 0 push 0 (key 8)")

    def test_a_push_that_is_there_twice(self):
        lines = [push(1, 0, [7]), end(2, 0), *finals(9, {7: TWO}, 1)]
        self.assert_found(self.judge(lines), "TWICE")

    def test_an_unknown_push_that_is_there_twice(self):
        lines = [push(1, 0, [7]), end(2, 0, "info"), *finals(9, {7: TWO}, 1)]
        self.assert_found(self.judge(lines), "TWICE")

    def test_a_row_that_is_there_in_part(self):
        lines = [push(1, 0, [7]), end(2, 0), *finals(9, {7: [1.0, 0.0]}, 1)]
        self.assert_found(self.judge(lines), "TORN")

    def test_an_unknown_push_may_be_there_in_some_slots(self):
        for outcome in ([end(2, 0, "info")], []):
            for rows in ({}, {7: ONE}, {7: ONE, 8: ONE}):
                for counter in (0, 3):
                    lines = [push(1, 0, [7, 8], n=3), *outcome, *finals(9, rows, counter)]
                    self.assertEqual(self.judge(lines).wrong, [])

    def test_a_refused_push_that_is_there(self):
        lines = [push(1, 0, [7]), end(2, 0, "fail"), *finals(9, {7: ONE}, 0)]
        self.assert_found(self.judge(lines), "BACK")

    def test_a_row_that_nobody_pushed(self):
        self.assert_found(self.judge(finals(9, {7: ONE}, 0)), "never pushed")

    def test_a_read_that_misses_what_was_acknowledged_before_it_began(self):
        lines = [push(1, 0, [7]), end(2, 0), *read(3, 0, [7], [0.0, 0.0], counter=1),
                 *finals(9, {7: ONE}, 1)]
        self.assert_found(self.judge(lines), "LOST")

    def test_a_read_beside_a_push_may_see_it_or_not(self):
        for row in (ONE, [0.0, 0.0]):
            lines = [push(1, 0, [7]), *read(2, 0, [7], row, counter=1), end(5, 0),
                     *finals(9, {7: ONE}, 1)]
            self.assertEqual(self.judge(lines).wrong, [])

    def test_a_counter_beyond_its_bounds(self):
        for value, n_wrong in ((4, 1), (5, 0), (8, 0), (9, 1)):
            lines = [push(1, 0, [1], n=5), end(2, 0), push(3, 1, [2], n=3),
                     *read(4, 0, [], [], counter=value), end(7, 1),
                     *finals(9, {1: ONE, 2: ONE}, 8)]
            self.assertEqual(self.judge(lines).n_wrong, n_wrong, value)

    def test_a_counter_that_is_wrong_in_the_end(self):
        lines = [push(1, 0, [7], n=2), end(2, 0), *finals(9, {7: ONE}, 3)]
        self.assert_found(self.judge(lines), "counter 0 is 3, not 2 to 2")

    def test_numbers_that_do_not_sum_to_0(self):
        self.assert_found(self.judge([*read(1, 0, [], [], zero=3), *finals(9, {}, 0)]), "zero.0")
        self.assert_found(self.judge(finals(9, {}, 0, zero=-1)), "zero.0")

    def test_a_history_without_an_end(self):
        self.assert_found(self.judge([push(1, 0, [7]), end(2, 0)]), "nothing was read")

    def test_a_torn_last_line(self):
        lines = [push(1, 0, [7]), end(2, 0), *finals(9, {7: ONE}, 1)]
        self.assertEqual(self.judge(lines, tail='{"t":12,"c"').wrong, [])

    def test_a_way_back_keeps_what_was_before_the_cut_and_undoes_what_came_after(self):
        way = history.WayBack(history.Cut(10, 20), 30, 40)
        before = [push(1, 0, [1], n=0), end(2, 0)]
        beside = [push(11, 1, [2], n=0), end(12, 1)]
        after = [push(21, 2, [3], n=0), end(22, 2)]
        during = [push(31, 3, [4], n=0), end(32, 3)]
        later = [push(41, 4, [5], n=0), end(42, 4)]
        lines = before + beside + after + during + later
        for there, n_wrong in (((1, 5), 0), ((1, 2, 4, 5), 0), ((5,), 1), ((1, 3, 5), 1), ((1,), 1),
                               ((1, 2, 3, 4, 5), 1)):
            verdict = self.judge([*lines, *finals(90, {k: ONE for k in there}, 0)], [way])
            self.assertEqual(verdict.n_wrong, n_wrong, (there, verdict.text()))


if __name__ == "__main__":
    unittest.main()
