"""aiokafka, spoken to as ../contract.py says."""

import asyncio
import importlib.metadata
import os
import sys
import time

# This folder has the library's name, so it must not be where Python looks for it.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import aiokafka  # noqa: E402
import contract  # noqa: E402
from aiokafka import admin, errors, helpers  # noqa: E402
from aiokafka.structs import OffsetAndMetadata, TopicPartition  # noqa: E402
from contract import Seen, Steps, Timeout, Unsupported, say  # noqa: E402


def settings(job, **more):
    conf = {
        "bootstrap_servers": job.bootstrap.split(","),
        "security_protocol": job.protocol,
        "client_id": job.client_id or "aiokafka",
        "request_timeout_ms": min(40000, job.timeout_ms),
    }
    if job.tls:
        pair = {"certfile": job.cert, "keyfile": job.key} if job.cert else {}
        conf["ssl_context"] = helpers.create_ssl_context(cafile=job.ca, **pair)
    if job.sasl:
        conf.update(sasl_mechanism=job.mechanism, sasl_plain_username=job.user, sasl_plain_password=job.password)
    return {**conf, **more, **job.settings}


def version(_):
    return {"name": "aiokafka", "version": importlib.metadata.version("aiokafka")}


def administering(call):
    """Makes an op of call(job, client, steps) with a client that is started and closed."""

    async def op(job):
        client = admin.AIOKafkaAdminClient(**settings(job))
        try:
            await client.start()
            return await call(job, client, Steps())
        finally:
            await client.close()

    return op


@administering
async def metadata(job, client, _):
    cluster = await client.describe_cluster()
    return {
        "cluster": cluster["cluster_id"],
        "brokers": [{"id": b["node_id"], "host": b["host"], "port": b["port"]} for b in cluster["brokers"]],
        "topics": sorted(await client.list_topics()),
    }


@administering
async def administrate(job, client, steps):
    await steps.arun("create", lambda: checked(client.create_topics([admin.NewTopic(job.topic, 2, 1)]), "topic_errors"))
    await steps.arun("describe", lambda: described(client, job.topic))
    await steps.arun("delete", lambda: checked(client.delete_topics([job.topic]), "topic_error_codes"))


async def checked(call, field):
    """Raises what an answer's rows say: aiokafka hands it back unread."""
    for row in getattr(await call, field):
        if row[1]:
            raise errors.for_code(row[1])(*[text for text in row[2:3] if text])


async def described(client, topic):
    found = (await client.describe_topics([topic]))[0]
    if found["error_code"]:
        raise errors.for_code(found["error_code"])()
    return {"partitions": len(found["partitions"])}


async def producing(job, seconds=None, **more):
    producer = aiokafka.AIOKafkaProducer(**settings(
        job,
        acks="all",
        enable_idempotence=True,
        compression_type=None if job.compression == "none" else job.compression,
        max_request_size=20_000_000,
        **more,
    ))
    await started(producer, seconds or job.left())
    return producer


async def started(client, seconds):
    """Starts client; one that can't start is stopped, or its sockets would be told of as left open."""
    try:
        await asyncio.wait_for(client.start(), seconds)
    except BaseException:
        await client.stop()
        raise


async def send(producer, job, numbers, aborted=False):
    """Produces records and returns the offset of the last one, which is known when all were delivered."""
    futures = []
    for i in numbers:
        key, value, headers = job.record(i, aborted)
        futures.append(await producer.send(job.topic, value=value, key=key, headers=headers))
    try:
        return [(await asyncio.wait_for(f, job.left())).offset for f in futures][-1]
    finally:
        for f in futures:
            f.cancelled() or f.done() and f.exception()  # told of once


async def produce(job):
    produced = 0
    for _ in job.codecs():
        producer = await producing(job)
        await send(producer, job, range(job.count))
        await producer.stop()
        produced += job.count
    return {"produced": produced, "idempotent": True}


async def transact(job):
    producer = await producing(job, transactional_id=job.txid, transaction_timeout_ms=min(job.timeout_ms, 60000))
    await producer.begin_transaction()
    await send(producer, job, range(job.count))
    await producer.commit_transaction()
    await producer.begin_transaction()
    await send(producer, job, range(job.count), aborted=True)
    await producer.abort_transaction()
    await producer.stop()
    return {"committed": job.count, "aborted": job.count}


async def consuming(job, listener=None, seconds=None):
    if job.group_protocol != "classic":
        raise Unsupported("aiokafka has no group protocol %r (KIP-848)" % job.group_protocol)
    conf = {
        "group_id": job.group,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "session_timeout_ms": job.session_ms,
        "heartbeat_interval_ms": 1000,
        "max_partition_fetch_bytes": 20_000_000,
    }
    if job.instance_id:
        conf["group_instance_id"] = job.instance_id
    consumer = aiokafka.AIOKafkaConsumer(**settings(job, **conf))
    consumer.subscribe([job.topic], listener=listener)
    await started(consumer, seconds or job.left())
    return consumer


async def records(consumer, seconds, most=None):
    batches = await consumer.getmany(timeout_ms=int(seconds * 1000), max_records=most)
    return [r for batch in batches.values() for r in batch]


async def consume(job):
    consumer, seen = await consuming(job), Seen()
    try:
        while seen.count < job.count and job.left() > 0:
            for record in await records(consumer, min(0.2, job.left()), job.count - seen.count):
                seen.add(record.key, record.value, record.headers)
        seen.need(job.count)
        await consumer.commit()
    finally:
        await consumer.stop()
    return seen.fields()


async def loop(job):
    patience = job.try_ms / 1000

    async def connect():
        producer = await producing(job, patience)
        try:
            return producer, await consuming(job, seconds=patience)
        except BaseException:
            await producer.stop()
            raise

    async def attempt(clients, i):
        producer, consumer = clients
        key, value, headers = job.record(i)
        sent = producer.send_and_wait(job.topic, value=value, key=key, headers=headers)
        want = (await asyncio.wait_for(sent, patience)).offset
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if any(r.offset >= want for r in await records(consumer, 0.2)):
                return want
        raise Timeout("record %d was produced at offset %d but not consumed in %d ms" % (i, want, job.try_ms))

    for client in await contract.tries(job, connect, attempt) or ():
        await client.stop()


class Tell(aiokafka.ConsumerRebalanceListener):
    """Tells of each change of the assignment."""

    def on_partitions_assigned(self, assigned):
        say(ok=True, change="assigned", partitions=sorted(p.partition for p in assigned))

    def on_partitions_revoked(self, revoked):
        say(ok=True, change="revoked", partitions=sorted(p.partition for p in revoked))


async def member(job):
    consumer = await consuming(job, Tell())
    while not job.over():
        await records(consumer, 0.1)
    await consumer.stop()


async def share(_):
    raise Unsupported("aiokafka has no share consumer")


@administering
async def manage(job, client, steps):
    topic, partition = job.topic, TopicPartition(job.topic, 0)
    kinds = admin.config_resource.ConfigResourceType
    steps.pause = job.pause_ms / 1000
    run = steps.arun

    async def created(name, configs=None, **options):
        new = admin.NewTopic(name, 2, 1, topic_configs=configs or {})
        await checked(client.create_topics([new], **options), "topic_errors")

    async def configs(kind, name, *keys):
        answers = await client.describe_configs([admin.config_resource.ConfigResource(kind, name)])
        entries = {row[0]: [row[1], row[3]] for answer in answers for resource in answer.resources for row in resource[4]}
        return {k: entries[k] for k in keys if k in entries}

    async def alter(values):
        for answer in await client.alter_configs([admin.config_resource.ConfigResource(kinds.TOPIC, topic, values)]):
            for code, text, *_ in answer.resources:
                if code:
                    raise errors.for_code(code)(text)

    await run("create topics", lambda: created(topic, {"retention.ms": "3600000"}))
    await run("create topics that exist", lambda: created(topic))
    await run("create topics with a bad config", lambda: created(topic + "-bad", {"retention.ms": "soon"}))
    await run("create topics, validate only", lambda: created(topic + "-dry", validate_only=True))

    async def listed():
        return sorted(t for t in await client.list_topics() if t.startswith(topic))

    async def created_partitions(n):
        await client.create_partitions({topic: admin.NewPartitions(n)})

    await run("list topics", listed)
    await run("describe topics", lambda: described(client, topic))
    await run("create partitions", lambda: created_partitions(4))
    await run("create fewer partitions", lambda: created_partitions(1))
    await run("describe configs of a topic", lambda: configs(
        kinds.TOPIC, topic, "retention.ms", "cleanup.policy", "max.message.bytes"))
    await run("describe configs of a broker", lambda: configs(
        kinds.BROKER, str(job.broker), "num.io.threads", "max.connections"))
    await run("alter configs", lambda: alter({"retention.ms": "1800000"}))
    await run("alter configs, unknown", lambda: alter({"no.such.config": "1"}))
    await run("describe configs replaced", lambda: configs(kinds.TOPIC, topic, "retention.ms", "cleanup.policy"))
    await manage_groups(job, client, run, partition)

    async def deleted(offset):
        return list((await client.delete_records({partition: admin.RecordsToDelete(before_offset=offset)})).values())

    await run("delete records", lambda: deleted(-1))
    await run("delete records beyond the end", lambda: deleted(1000))

    async def cluster():
        found = await client.describe_cluster()
        return [len(found["brokers"]), found["controller_id"]]

    await run("describe cluster", cluster)
    await run("delete topics", lambda: checked(client.delete_topics([topic]), "topic_error_codes"))
    await run("delete topics that are gone", lambda: checked(client.delete_topics([topic]), "topic_error_codes"))


async def manage_groups(job, client, run, partition):
    producer = await producing(job)

    async def produced():
        return [(await producer.send_and_wait(partition.topic, b"x", partition=0)).offset for _ in range(3)]

    await run("produce", produced)
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(**settings(job, group_id=job.group, enable_auto_commit=False))
    consumer.assign([partition])
    await consumer.start()
    await run("commit offsets", lambda: consumer.commit({partition: OffsetAndMetadata(1, "")}))

    async def earliest():
        return list((await consumer.beginning_offsets([partition])).values())

    async def latest():
        return list((await consumer.end_offsets([partition])).values())

    async def groups():
        return [g for g in await client.list_consumer_groups() if g[0] == job.group]

    async def describe(name):
        return [[g[1], g[2], len(g[5])] for answer in await client.describe_consumer_groups([name]) for g in answer.groups]

    async def offsets():
        return [o.offset for o in (await client.list_consumer_group_offsets(job.group)).values()]

    await run("list offsets, earliest", earliest)
    await run("list offsets, latest", latest)
    await run("list consumer groups", groups)
    await run("describe consumer groups", lambda: describe(job.group))
    await run("describe an unknown group", lambda: describe(job.group + "-unknown"))
    await run("list consumer group offsets", offsets)
    await consumer.stop()


def running(op):
    return lambda job: asyncio.run(op(job))


contract.main({"version": version, **{name: running(op) for name, op in {
    "metadata": metadata, "admin": administrate, "produce": produce, "transact": transact,
    "consume": consume, "loop": loop, "member": member, "share": share, "manage": manage,
}.items()}})
