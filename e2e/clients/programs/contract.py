"""What the Python clients have in common.

A client program reads one JSON object, the first line of its standard input, does what its "op" says with its library, and
answers in JSON lines: {"ok": true, ...} or {"error": class or code, "text": ..., "retriable": bool or null}, in the end
{"done": true, "ms": N}. Its exit code is 0 whenever it could say that much. What a library does not have is {"unsupported": why}.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
import time

INPUTS = {
    "bootstrap": "", "protocol": "PLAINTEXT", "ca": "", "cert": "", "key": "", "mechanism": "PLAIN", "user": "", "password": "",
    "topic": "", "group": "", "txid": "", "count": 1, "timeout_ms": 30000, "client_id": "",
    # Beyond the contract: codecs, separated by commas, a value's bytes, how members join, how long a try of loop may take and what lies between
    # tries, the broker's id, and the library's own settings.
    "compression": "none", "size": 0, "group_protocol": "classic", "instance_id": "", "try_ms": 10000, "pause_ms": 200,
    "broker": 1, "settings": {},
}

# GRACE is how long past its time a job may still need to fail by itself before it is ended as one that hangs.
GRACE = 20


class Unsupported(Exception):
    """Its text says what the library lacks."""


class Timeout(Exception):
    """The program's own: the library reported nothing, and the time of the job was over."""

    retriable = True


_say_lock = threading.Lock()


def say(**fields):
    """Prints one line of the answer at once. Safe for threads."""
    with _say_lock:
        sys.stdout.write(json.dumps(fields, default=str) + "\n")
        sys.stdout.flush()


def failure(error):
    """Returns what is said of error. A library's program may set `describe` to look deeper."""
    fields = describe(error)
    return {"error": fields[0], "text": fields[1], "retriable": fields[2]}


def describe(error):
    """Returns class or code, text, and whether a retry may help: None where the library doesn't say."""
    return type(error).__name__, str(error), getattr(error, "retriable", None)


class Job:
    """One input, with its defaults as attributes; its time runs from when it is made."""

    def __init__(self, fields):
        unknown = set(fields) - set(INPUTS) - {"op"}
        if unknown:
            raise ValueError("unknown inputs %s; known are op, %s" % (sorted(unknown), ", ".join(INPUTS)))
        self.op = fields.get("op", "")
        for name, default in INPUTS.items():
            value = fields.get(name)
            setattr(self, name, default if value is None or value == "" else value)
        self.start = time.monotonic()
        self.stdin_closed = threading.Event()

    @property
    def sasl(self):
        return self.protocol.startswith("SASL")

    @property
    def tls(self):
        return self.protocol.endswith("SSL")

    def left(self):
        """Seconds until the job's time is over, never below 0."""
        return max(0.0, self.start + self.timeout_ms / 1000 - time.monotonic())

    def over(self):
        """Whether loop has to end: nobody holds standard input any more, or the time is over."""
        return self.stdin_closed.is_set() or self.left() == 0

    def codecs(self):
        """Sets compression to each of the codecs in turn, and yields it."""
        for self.compression in self.compression.split(","):
            yield self.compression

    @property
    def session_ms(self):
        """How long a group keeps a member that says nothing: a static one is to come back in that time."""
        return 120000 if self.instance_id else 10000

    def record(self, i, aborted=False):
        """Returns key, value and headers of record i, so that a consumer of another language can tell what it reads."""
        value = "%s%s-%d" % ("aborted-" if aborted else "", self.client_id, i)
        key = b"k%d" % i if i % 2 else None
        return key, value.ljust(self.size, ".").encode(), [("n", b"%d" % i)]


class Seen:
    """Counts what a consumer got."""

    def __init__(self):
        self.count = self.aborted = self.null_keys = self.headers = 0
        self.first = self.last = None

    def add(self, key, value, headers):
        text = bytes(value or b"").decode(errors="replace").rstrip(".")
        self.count += 1
        self.aborted += text.startswith("aborted-")
        self.null_keys += key is None
        self.headers += any(name == "n" for name, _ in headers or [])
        self.first = self.first or text
        self.last = text

    def fields(self):
        return {"consumed": self.count, "aborted": self.aborted, "null_keys": self.null_keys, "headers": self.headers,
                "first": self.first, "last": self.last}

    def need(self, count):
        """Raises Timeout unless count were seen."""
        if self.count < count:
            raise Timeout("consumed %d of %d records in time" % (self.count, count))


class Steps:
    """Runs steps one by one, and tells of each: a step's failure does not keep the next from running.

    pause is how many seconds lie between two: a cluster comes to know some time later what was altered.
    """

    def __init__(self, pause=0):
        self.pause = pause

    def run(self, name, call):
        try:
            say(ok=True, step=name, result=call())
        except Exception as error:  # any error is an answer
            say(step=name, **failure(error))
        time.sleep(self.pause)

    async def arun(self, name, call):
        try:
            say(ok=True, step=name, result=await call())
        except Exception as error:  # any error is an answer
            say(step=name, **failure(error))
        await asyncio.sleep(self.pause)


async def tries(job, connect, attempt, gave_up=lambda error, clients: False):
    """Runs attempt(clients, i) again and again until job is over, and tells of each try: ok with the offset that it returns.

    connect makes the clients; they are made anew where gave_up says that they will never work again, as a program must whose
    library gives up. All three may be coroutines' functions.
    """
    i, clients = 0, None
    while not job.over():
        began = time.monotonic()
        try:
            if clients is None:
                clients = await _value(connect())
            said = {"ok": True, "n": i, "offset": await _value(attempt(clients, i))}
        except Exception as error:  # any error is an answer
            said = {"n": i, **failure(error)}
            if clients is not None and await _value(gave_up(error, clients)):
                clients, said["gave_up"] = None, True
        say(ms=since(began), **said)
        i += 1
        until = time.monotonic() + min(job.pause_ms / 1000, job.left())
        while time.monotonic() < until and not job.stdin_closed.is_set():
            await asyncio.sleep(0.02)
    return clients


async def _value(got):
    return await got if inspect.isawaitable(got) else got


def since(began):
    """Milliseconds since began."""
    return int((time.monotonic() - began) * 1000)


def _first_line():
    """Reads one line from standard input and no further: loop waits for the rest to end."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            break
        line += more
    return line


def _watch_stdin(job):
    while os.read(0, 4096):
        pass
    job.stdin_closed.set()


def _watch_time(job):
    time.sleep(job.timeout_ms / 1000 + GRACE)
    say(error="Hang", text="the library neither answered nor failed %d s after the job's time was over" % GRACE, retriable=None)
    say(done=True, ms=since(job.start))
    os._exit(0)


def main(operations):
    """Reads the job and runs operations[op](job); what it returns is the last answer, nothing if it is None."""
    job = Job(json.loads(_first_line()))
    for watch in (_watch_stdin, _watch_time):
        threading.Thread(target=watch, args=(job,), daemon=True).start()
    try:
        if job.op not in operations:
            raise Unsupported("no op %r; there are %s" % (job.op, ", ".join(operations)))
        said = operations[job.op](job)
        if said is not None:
            say(**{"ok": True, **said})
    except Unsupported as why:
        say(unsupported=str(why))
    except Exception as error:  # any error is an answer
        say(**failure(error))
    say(done=True, ms=since(job.start))
    sys.stdout.flush()
    os._exit(0)  # whatever threads the library still has
