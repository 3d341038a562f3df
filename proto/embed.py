#!/usr/bin/env python3
"""embed.py SET OUT.c OUT.h: a FileDescriptorSet as C data, for the reflection service.

SET is what `protoc --include_imports --descriptor_set_out` wrote. The answers of reflection are
whole FileDescriptorProtos, so they are kept as bytes, each framed as the field of the answer that
it will be, with two indexes: files by name, and symbols (services, methods, messages, fields, enums
and their values) in order, for a binary search. Nothing is parsed when the program runs.
"""

import sys

# Fields of descriptor.proto.
SET_FILE = 1
FILE_NAME, FILE_PACKAGE, FILE_DEPENDENCY = 1, 2, 3
FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, FILE_EXTENSION = 4, 5, 6, 7
MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM = 2, 3, 4
MESSAGE_EXTENSION, MESSAGE_ONEOF = 6, 8
FIELD_TYPE_NAME = 6
ENUM_VALUE, SERVICE_METHOD = 2, 2
NAME = 1
RESPONSE_FILE = 1  # Of reflection.proto: FileDescriptorResponse.file_descriptor_proto


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(number, bytes)] of the fields that have a length; the others are of no use here."""
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        elif kind == 2:
            n, at = varint(data, at)
            found.append((tag >> 3, data[at : at + n]))
            at += n
        else:
            raise ValueError(f"wire type {kind}")
    return found


def framed(number, data):
    """The field `number` with `data` in it."""
    n, head = len(data), [number << 3 | 2]
    while n > 0x7F:
        head.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(head + [n]) + data


def every(data, number):
    return [value for n, value in fields(data) if n == number]


def text(data, number=NAME):
    values = every(data, number)
    return values[-1].decode() if values else ""


def join(scope, name):
    return f"{scope}.{name}" if scope else name


class File:
    def __init__(self, data):
        self.data = data
        self.name = text(data)
        self.package = text(data, FILE_PACKAGE)
        self.dependencies = [value.decode() for value in every(data, FILE_DEPENDENCY)]
        self.symbols = []
        self.services = []
        self.uses = {}  # Message -> the messages in its fields.
        for message in every(data, FILE_MESSAGE):
            self._message(self.package, message)
        for enum in every(data, FILE_ENUM):
            self._enum(self.package, enum)
        for extension in every(data, FILE_EXTENSION):
            self.symbols.append(join(self.package, text(extension)))
        for service in every(data, FILE_SERVICE):
            name = join(self.package, text(service))
            self.services.append(name)
            self.symbols.append(name)
            self.symbols += [join(name, text(m)) for m in every(service, SERVICE_METHOD)]

    def _message(self, scope, message):
        name = join(scope, text(message))
        self.symbols.append(name)
        self.uses[name] = []
        for number in (MESSAGE_FIELD, MESSAGE_EXTENSION, MESSAGE_ONEOF):
            self.symbols += [join(name, text(part)) for part in every(message, number)]
        for field in every(message, MESSAGE_FIELD):
            self.uses[name].append(text(field, FIELD_TYPE_NAME).lstrip("."))
        for nested in every(message, MESSAGE_NESTED):
            self._message(name, nested)
        for enum in every(message, MESSAGE_ENUM):
            self._enum(name, enum)

    def _enum(self, scope, enum):
        self.symbols.append(join(scope, text(enum)))
        # The names of values stand beside the enum, not in it.
        self.symbols += [join(scope, text(value)) for value in every(enum, ENUM_VALUE)]


def read_set(path):
    with open(path, "rb") as f:
        return [File(data) for data in every(f.read(), SET_FILE)]


def cycles(files):
    """Messages that contain themselves, directly or through others: [[name, ..., name]].

    protobuf-c unpacks by recursion without a limit, so a cycle lets a peer overrun the stack.
    """
    uses = {name: used for file in files for name, used in file.uses.items()}
    found, done = [], set()

    def visit(name, path):
        if name in path:
            found.append(path[path.index(name) :] + [name])
        elif name in uses and name not in done:
            for used in uses[name]:
                visit(used, path + [name])
            done.add(name)

    for name in sorted(uses):
        visit(name, [])
    return found


def c_bytes(data):
    lines = [", ".join(str(b) for b in data[i : i + 24]) for i in range(0, len(data), 24)]
    return ",\n    ".join(lines)


def needed(files, file):
    """Numbers of all the files that `file` imports, directly or through others; itself first."""
    number = {other.name: i for i, other in enumerate(files)}
    found = [number[file.name]]
    for i in found:  # It grows.
        found += [number[n] for n in files[i].dependencies if number[n] not in found]
    return found


def write_source(path, header, files):
    out = [f'/* Made by proto/embed.py. */\n#include "{header}"\n']
    for i, file in enumerate(files):
        data = framed(RESPONSE_FILE, file.data)
        out.append(f"static const uint8_t file_{i}[] = {{\n    {c_bytes(data)}\n}};\n")
        numbers = ", ".join(map(str, needed(files, file)))
        out.append(f"static const uint32_t needs_{i}[] = {{{numbers}}};\n")
    out.append("const struct ps_proto_file ps_proto_files[PS_PROTO_FILES] = {")
    for i, file in enumerate(files):
        out.append(
            f'    {{"{file.name}", file_{i}, sizeof(file_{i}), needs_{i},'
            f" {len(needed(files, file))}}},"
        )
    out.append("};\n\nconst struct ps_proto_symbol ps_proto_symbols[PS_PROTO_SYMBOLS] = {")
    for name, i in symbols_of(files):
        out.append(f'    {{"{name}", {i}}},')
    out.append("};\n")
    with open(path, "w") as f:
        f.write("\n".join(out))


def symbols_of(files):
    """[(name, number of its file)] in the order of strcmp."""
    every_name = [(name, i) for i, file in enumerate(files) for name in file.symbols]
    return sorted(every_name, key=lambda symbol: symbol[0].encode())


def write_header(path, files):
    n_symbols = sum(len(file.symbols) for file in files)
    with open(path, "w") as f:
        f.write(f"""/* Made by proto/embed.py: every .proto that is served, as descriptors. */
#ifndef PS_PROTO_DESCRIPTORS_H
#define PS_PROTO_DESCRIPTORS_H
#include <stddef.h>
#include <stdint.h>

#define PS_PROTO_FILES   {len(files)}u
#define PS_PROTO_SYMBOLS {n_symbols}u

struct ps_proto_file {{
    const char *name;
    const uint8_t *data; /* One field of a FileDescriptorResponse: the FileDescriptorProto. */
    size_t n_bytes;
    const uint32_t *needs; /* [n_needs] Itself and all it imports, as places in ps_proto_files. */
    uint32_t n_needs;
}};

struct ps_proto_symbol {{
    const char *name; /* "ps.v1.Table.number" */
    uint32_t file;
}};

extern const struct ps_proto_file ps_proto_files[PS_PROTO_FILES];
extern const struct ps_proto_symbol ps_proto_symbols[PS_PROTO_SYMBOLS]; /* By name. */

#endif
""")


def main():
    files = read_set(sys.argv[1])
    write_source(sys.argv[2], sys.argv[3].rsplit("/", 1)[-1], files)
    write_header(sys.argv[3], files)


if __name__ == "__main__":
    main()
