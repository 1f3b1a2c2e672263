#!/usr/bin/env python3
"""Names the source files that one push of two records runs through, each function counted once.

usage: Scripts/path-of-a-push.py [--patch] [TIDEMARK]   the debug build of tidemark, by default .build/debug/tidemark

With --patch, a PATCH of one record over REST takes the push's place.

It serves a file, and pushes until everything is prepared. Then it puts a breakpoint at the entry of every function of
the project, pushes again, and removes each breakpoint when a thread meets it. So the server runs at full speed, and the
result is exact: a debug build inlines nothing. A function counts that ran in each of three pushes, and not in a server
without requests, where only timers run.

Needs Linux on x86-64, nm, the toolchain of Swift, and the right to trace processes of one's own.
"""
import ctypes
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

CONTINUE, GET_REGISTERS, SET_REGISTERS, DETACH = 7, 12, 13, 17
SEIZE, INTERRUPT = 0x4206, 0x4207
TRACE_CLONES, STOP_EVENT = 0x8, 128
TRAP = 0xCC
INSTRUCTION_POINTER = 16  # its place among the registers
WAIT_ALL = 0x40000000
IDLE_SECONDS = 3  # longer than the pause of every timer that also runs in the time of a push

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
SCHEMA = """
CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE item (id INTEGER PRIMARY KEY, list_id INTEGER NOT NULL REFERENCES list, text TEXT NOT NULL);
INSERT INTO list VALUES (1, 'a');
"""


def ptrace(request, thread, data=None):
    if libc.ptrace(request, thread, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


def push(address, number):
    """Creates an item in a new list; both get permanent ids."""
    parent, child = -1 - 2 * number, -2 - 2 * number
    body = {
        "maxRevision": number + 1, "device": "00000000-0000-4000-8000-000000000001",
        "changeSets": [{
            "id": f"00000000-0000-4000-8000-{number + 2:012}",
            "list": {"create": [parent], "attributes": {str(parent): {"name": "d"}}},
            "item": {"create": [child], "attributes": {str(child): {"list_id": parent, "text": "e"}}},
        }],
    }
    request = urllib.request.Request(f"{address}/sync", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        if b'"conflict":false' not in answer.read():
            raise SystemExit("the server refused the push")


def patch(address, number):
    """Changes a list over REST."""
    request = urllib.request.Request(
        f"{address}/tables/list/1", json.dumps({"name": f"name {number}"}).encode(),
        {"Content-Type": "application/json", "If-Match": "*"}, method="PATCH")
    with urllib.request.urlopen(request, timeout=60) as answer:
        if f"name {number}".encode() not in answer.read():
            raise SystemExit("the server refused the PATCH")


def functions(program):
    """The addresses of the functions of the project's own modules, by the mangled names of Swift."""
    text = subprocess.run(["nm", "--defined-only", program], check=True, capture_output=True, text=True).stdout
    own = re.compile(r"^([0-9a-f]+) [tT] \$s.*\d+Tidemark")
    return sorted({int(found.group(1), 16) for found in map(own.match, text.splitlines()) if found})


def pages(addresses):
    """The addresses, which are in order, by runs of memory: to write each of them takes so long that timers run out."""
    first = 0
    while first < len(addresses):
        end = first
        while end < len(addresses) and addresses[end] < addresses[first] + (1 << 16):
            end += 1
        yield addresses[first], addresses[end - 1] - addresses[first] + 1, addresses[first:end]
        first = end


class ServerEnded(Exception):
    """The traced server has ended, with an exit code or a negated signal."""


class Tracer:
    """All threads of a process, and breakpoints that work once."""

    def __init__(self, process, addresses):
        self.process = process
        self.met = set()
        self.memory = os.open(f"/proc/{process}/mem", os.O_RDWR)
        self.threads = set()
        # A thread that is not stopped yet can start another one, which nothing traces: a breakpoint would end the process.
        while untraced := set(map(int, os.listdir(f"/proc/{process}/task"))) - self.threads:
            for thread in untraced:
                self.stop(thread)
        self.saved = {}
        for first, size, page in pages(addresses):
            memory = bytearray(os.pread(self.memory, size, first))
            for address in page:
                self.saved[address] = memory[address - first]
                memory[address - first] = TRAP
            os.pwrite(self.memory, memory, first)
        for thread in self.threads:
            ptrace(CONTINUE, thread)

    def stop(self, thread):
        """Traces a thread and stops it, unless it has ended meanwhile."""
        try:
            try:
                ptrace(SEIZE, thread, TRACE_CLONES)
                ptrace(INTERRUPT, thread)
            except PermissionError:
                pass  # A traced thread has just started it, so the kernel traces and stops it.
            _, status = os.waitpid(thread, WAIT_ALL)
            if os.WIFSTOPPED(status):
                self.threads.add(thread)
        except (ProcessLookupError, ChildProcessError):
            pass  # It has ended.

    def follow(self, worker):
        """Answers every stop of a thread until the worker has ended, and then lets the process go."""
        while worker.is_alive():
            thread, status = os.waitpid(-1, WAIT_ALL | os.WNOHANG)
            if thread:
                self.answer(thread, status)
            else:
                worker.join(0.001)
        self.release()

    def answer(self, thread, status):
        if not os.WIFSTOPPED(status):
            self.threads.discard(thread)
            if thread == self.process:
                raise ServerEnded(os.waitstatus_to_exitcode(status))
            return
        self.threads.add(thread)
        is_event = status >> 16 != 0
        number = os.WSTOPSIG(status)
        if number == signal.SIGTRAP and not is_event:
            self.pass_breakpoint(thread)
            number = 0
        ptrace(CONTINUE, thread, 0 if is_event else number)

    def pass_breakpoint(self, thread):
        registers = (ctypes.c_ulonglong * 27)()
        ptrace(GET_REGISTERS, thread, ctypes.byref(registers))
        address = registers[INSTRUCTION_POINTER] - 1
        if address not in self.saved:
            raise SystemExit(f"a trap at {address:#x} that is not this script's")
        # Another thread may have met the same one before it was removed.
        if address not in self.met:
            self.met.add(address)
            os.pwrite(self.memory, bytes([self.saved[address]]), address)
        registers[INSTRUCTION_POINTER] = address
        ptrace(SET_REGISTERS, thread, ctypes.byref(registers))

    def halt(self, thread):
        """Stops a thread that is traced, behind any breakpoint that it has met."""
        self.threads.add(thread)
        try:
            ptrace(INTERRUPT, thread)
            while True:
                _, status = os.waitpid(thread, WAIT_ALL)
                if not os.WIFSTOPPED(status):
                    return self.threads.discard(thread)
                # The kernel reports the interruption before a trap that came first; that would end a free process.
                if status >> 16 == STOP_EVENT and not self.has_pending_trap(thread):
                    return
                if os.WSTOPSIG(status) == signal.SIGTRAP and status >> 16 == 0:
                    self.pass_breakpoint(thread)
                    ptrace(INTERRUPT, thread)
                ptrace(CONTINUE, thread)
        except (ProcessLookupError, ChildProcessError):
            self.threads.discard(thread)

    def has_pending_trap(self, thread):
        with open(f"/proc/{self.process}/task/{thread}/status") as status:
            pending = next(int(line.split()[1], 16) for line in status if line.startswith("SigPnd:"))
        return pending >> (signal.SIGTRAP - 1) & 1 == 1

    def release(self):
        """Stops all threads, takes the breakpoints away, and lets the process go."""
        # The kernel traces a new thread at once, also one that has not stopped yet.
        stopped = set()
        while running := set(map(int, os.listdir(f"/proc/{self.process}/task"))) - stopped:
            for thread in running:
                self.halt(thread)
                stopped.add(thread)
        self.threads &= stopped
        for first, size, page in pages(sorted(self.saved)):
            memory = bytearray(os.pread(self.memory, size, first))
            for address in page:
                memory[address - first] = self.saved[address]
            os.pwrite(self.memory, memory, first)
        os.close(self.memory)
        for thread in self.threads:
            ptrace(DETACH, thread)


def load_address(process, program):
    """Where the program begins in the memory of its process."""
    with open(f"/proc/{process}/maps") as maps:
        return next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(os.path.realpath(program)))


def sources(program, addresses):
    """The source file of each address, without those of planted bugs, which a release build does not have."""
    symbolizer = os.path.join(os.path.dirname(os.path.realpath(shutil.which("swift"))), "llvm-symbolizer")
    lines = "\n".join(hex(address) for address in addresses)
    text = subprocess.run(
        [symbolizer, "--obj=" + program, "--functions=none", "--no-inlines"],
        check=True, input=lines, capture_output=True, text=True).stdout
    return re.findall(r"/(Sources/Tidemark\w*/(?!.*/?Planted)[^:\n]*\.swift):", text)


def met_during(work, process, addresses):
    """Those of the addresses that the process runs while this one does some work."""
    tracer = Tracer(process, addresses)
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    tracer.follow(worker)
    return tracer.met


def trace(program, folder, send):
    """The addresses of the functions that run in each of three requests and in no timer."""
    path = os.path.join(folder, "zone.sqlite")
    with sqlite3.connect(path) as database:
        database.executescript(SCHEMA)
    log = tempfile.TemporaryFile("w+")
    server = subprocess.Popen([program, "serve", path, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                              stderr=log, text=True, env={**os.environ, "SWIFT_BACKTRACE": "enable=no"})
    try:
        address = next(found.group(0) for line in server.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
        for number in range(2):
            send(address, number)
        base = load_address(server.pid, program)
        addresses = [base + offset for offset in functions(program)]
        timers = met_during(lambda: time.sleep(IDLE_SECONDS), server.pid, addresses)
        requests = [met_during(lambda: send(address, number), server.pid, addresses) for number in range(2, 5)]
        return sorted(met - base for met in set.intersection(*requests) - timers)
    except ServerEnded as end:
        log.seek(0)
        print(f"The server ended while it was traced: {end}\n{log.read()}", file=sys.stderr)
        raise
    finally:
        server.kill()
        # The server is gone when each of its traced threads has been waited for.
        try:
            while True:
                os.waitpid(-1, WAIT_ALL)
        except ChildProcessError:
            pass


def trace_again(program, send):
    """As trace, and anew if one of this script's own traps has ended the server: then the count is at fault, not it."""
    for is_last in (False, False, True):
        try:
            with tempfile.TemporaryDirectory() as folder:
                return trace(program, folder, send)
        except ServerEnded as end:
            if is_last or end.args[0] != -signal.SIGTRAP:
                raise


def can_trace():
    """Whether this machine has the tools, and lets a process trace its child."""
    if not shutil.which("nm") or not shutil.which("swift"):
        return False
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.ptrace(0, 0, None, None) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main():
    if sys.argv[1:] == ["--can-trace"]:
        sys.exit(0 if can_trace() else 1)
    programs = [argument for argument in sys.argv[1:] if argument != "--patch"]
    program = programs[0] if programs else ".build/debug/tidemark"
    is_patch = "--patch" in sys.argv
    met = trace_again(program, patch if is_patch else push)
    counts = {}
    for source in sources(program, met):
        counts[source] = counts.get(source, 0) + 1
    lines = {source: sum(1 for _ in open(source)) for source in counts}
    targets = {}
    for source in sorted(counts):
        targets.setdefault(source.split("/")[1], []).append(source)
    for target, files in sorted(targets.items(), key=lambda entry: -len(entry[1])):
        print(f"\n{target}: {len(files)} files, {sum(lines[file] for file in files)} lines")
        for file in files:
            print(f"  {lines[file]:5} lines  {counts[file]:3} functions  {'/'.join(file.split('/')[2:])}")
    total = f"{len(counts)} files, {sum(lines.values())} lines, {sum(counts.values())} functions"
    print(f"\n{'A PATCH of a record' if is_patch else 'A push of two records'}: {total}")


if __name__ == "__main__":
    main()
