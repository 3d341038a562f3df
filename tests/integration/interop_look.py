#!/usr/bin/python3
"""Looks at a server as any tool of the gRPC world does, by reflection and health.

    interop_look.py look ADDRESS             what is there: services, files, health
    interop_look.py watch ADDRESS SERVICE    follow the health of a service until it ends
    interop_look.py crowd ADDRESS N          many watchers at once
"""

import argparse
import json
import time

import grpc
from interop_worker import CALL_S, Reflection, Stub, connect, parts_of


def status_name(reflection, reply):
    names = reflection.enum("grpc.health.v1.HealthCheckResponse.ServingStatus").values_by_number
    return names[reply.status].name


def check(reflection, health, service):
    request = reflection.message("grpc.health.v1.HealthCheckRequest")(service=service)
    try:
        return status_name(reflection, health.Check(request, timeout=CALL_S))
    except grpc.RpcError as error:
        return error.code().name


def look(args):
    channel = connect(args.address)
    seen = {}
    for version in ("v1", "v1alpha"):
        reflection = Reflection(channel, version)
        for service in reflection.services:
            Stub(channel, reflection, service)  # Every method's messages can be made.
        seen[version] = {"services": reflection.services, "files": sorted(reflection.files)}
    health = Stub(channel, reflection, "grpc.health.v1.Health")
    names = ["", "ps.v1.ParameterServer", "ps.v1.Coordinator", "no.such.Service"]
    seen["health"] = {name: check(reflection, health, name) for name in names}
    # One stream, many questions: files, symbols of all kinds, and things that are not there.
    questions = [
        (3, "ps/v1/coordinator.proto"), (3, "no/such.proto"), (4, "ps.v1.Coordinator.Join"),
        (4, "ps.v1.Table.first_slot"), (4, "ps.v1.JobState"), (4, "ps.v1.WAITING"),
        (4, "grpc.health.v1.HealthCheckResponse.ServingStatus"), (4, "ps.v1.Nothing"), (5, ""),
        (6, "ps.v1.Table"), (9, "a field of the future"),
    ]
    answers = reflection.ask(*((n, text.encode()) for n, text in questions))
    seen["answers"] = [
        [text, "file" if 4 in parts_of(a) else parts_of(parts_of(a)[7][0])[1][0]]
        for (_, text), a in zip(questions, answers)
    ]
    return seen


def watch(args):
    """Every status as a line, the code of the end as the last."""
    channel = connect(args.address)
    reflection = Reflection(channel)
    health = Stub(channel, reflection, "grpc.health.v1.Health")
    request = reflection.message("grpc.health.v1.HealthCheckRequest")(service=args.service)
    try:
        for reply in health.Watch(request):
            print(status_name(reflection, reply), flush=True)
    except grpc.RpcError as error:
        print(error.code().name, flush=True)


def crowd_once(args):
    """Open so many streams together; {what a stream heard first: how many did}. Then all go."""
    # A connection bears 256 calls, so it takes some, none of them shared.
    local = {"grpc.use_local_subchannel_pool": 1}
    channels = [connect(args.address, **local) for _ in range(1 + args.watchers // 100)]
    reflection = Reflection(channels[0])
    health = [Stub(channel, reflection, "grpc.health.v1.Health") for channel in channels]
    request = reflection.message("grpc.health.v1.HealthCheckRequest")()
    streams = [health[i % len(health)].Watch(request) for i in range(args.watchers)]
    heard = {}
    for stream in streams:
        try:
            word = status_name(reflection, next(stream))
        except grpc.RpcError as error:
            word = error.code().name
        heard[word] = heard.get(word, 0) + 1
    for stream in streams:
        stream.cancel()
    for channel in channels:
        channel.close()
    return heard


def crowd(args):
    """What the first crowd heard, and the next one, once the first has really gone."""
    first = crowd_once(args)
    end = time.monotonic() + CALL_S
    again = crowd_once(args)
    while again != first and time.monotonic() < end:
        time.sleep(0.1)
        again = crowd_once(args)
    return [first, again]


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for run in (look, watch, crowd):
        command = commands.add_parser(run.__name__)
        command.add_argument("address")
        command.set_defaults(run=run)
        if run is watch:
            command.add_argument("service")
        elif run is crowd:
            command.add_argument("watchers", type=int)
    args = parser.parse_args()
    result = args.run(args)
    if result is not None:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
