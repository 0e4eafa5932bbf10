"""librdkafka's clients as a load: an idempotent producer that waits for every acknowledgement, and a consumer in a group of its own.

python -c SOURCE PRODUCER.kcat CONSUMER.kcat BOOTSTRAP BOOTSTRAP TOPIC PARTITIONS GROUP PACE_MS

It reads and writes the lines that Load.java does, and ends with its standard input.
"""

import os
import sys
import threading
import time
import traceback

import confluent_kafka as ck

PREFIX = "librdkafka-"
stopped, over = threading.Event(), threading.Event()
saying = threading.Lock()


def say(*words):
    with saying:
        sys.stdout.write(" ".join(str(w).replace("\n", " ") for w in words) + "\n")
        sys.stdout.flush()


def config(file, bootstrap, **more):
    """What both clients have in common: they notice soon that a broker is gone, and do not wait long before they try again."""
    conf = dict(line.rstrip("\n").split("=", 1) for line in open(file, encoding="utf-8") if "=" in line)
    return {
        **conf,
        "bootstrap.servers": bootstrap,
        "socket.timeout.ms": 5000,
        "socket.connection.setup.timeout.ms": 2000,
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 500,
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 5000,
        "error_cb": lambda error: say("trouble", error),
        "log_level": 0,
        **more,
    }


def produce(producer, topic, partitions, pace):
    n = 0
    while not stopped.is_set():
        def answered(error, message, n=n):
            if error is None:
                say("acked", message.partition(), n, message.offset())
            else:
                say("refused", message.partition(), n, error)

        try:
            producer.produce(topic, PREFIX + str(n), partition=n % partitions, on_delivery=answered)
        except ck.KafkaException as e:  # what the library knows to be refused it does not send
            say("refused", n % partitions, n, e)
        producer.poll(0)
        stopped.wait(pace / 1000)
        n += 1


def consume(consumer, topic):
    consumer.subscribe([topic])
    while not over.is_set():
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                say("got", message.value().decode())
            else:
                say("trouble", message.error())
    consumer.close()


def whole(work):
    """Has work end the process with its failure: half a load would look like a broker that does not answer."""
    def run(*args):
        try:
            work(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return run


def main(produces, consumes, where, there, topic, partitions, group, pace):
    consumer = ck.Consumer(config(consumes, there, **{
        "group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": 10000, "heartbeat.interval.ms": 1000,
    }))
    consuming = threading.Thread(target=whole(consume), args=(consumer, topic), daemon=True)
    consuming.start()
    producer = ck.Producer(config(produces, where, **{
        "acks": "all", "enable.idempotence": True, "request.timeout.ms": 5000, "message.timeout.ms": 120000,
    }))
    sending = threading.Thread(target=whole(produce), args=(producer, topic, int(partitions), float(pace)), daemon=True)
    sending.start()
    for line in sys.stdin:
        if line.strip() == "stop":
            stopped.set()
            sending.join()
            while producer.flush(1) > 0:
                time.sleep(0.01)
            say("settled")
    stopped.set()
    over.set()
    consuming.join(3)
    os._exit(0)  # what waits for a broker must not keep it


main(*sys.argv[1:])
