"""confluent-kafka (librdkafka), spoken to as ../contract.py says."""

import asyncio
import importlib.metadata
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import confluent_kafka as ck  # noqa: E402
import contract  # noqa: E402
from confluent_kafka import admin  # noqa: E402
from contract import Seen, Steps, Timeout, say  # noqa: E402


class Notices:
    """The errors that librdkafka reports beside those of calls: refused credentials are told only here."""

    def __init__(self):
        self.told = set()
        self.fatal = None

    def __call__(self, error):
        if error.name() in ("_AUTHENTICATION", "_SSL") or error.fatal():
            self.fatal = self.fatal or error
        if error.name() not in self.told:
            self.told.add(error.name())
            say(notice=error.name(), text=error.str())


notices = Notices()


def describe(error):
    """Names what librdkafka's code is called; a call that ran into refused credentials only says that its time was over."""
    if isinstance(error, ck.KafkaException) and error.args and isinstance(error.args[0], ck.KafkaError):
        error = error.args[0]
    if not isinstance(error, ck.KafkaError):
        return type(error).__name__, str(error), getattr(error, "retriable", None)
    if notices.fatal is not None and error.name() in ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_MSG_TIMED_OUT"):
        return notices.fatal.name(), "%s (after which the call: %s)" % (notices.fatal.str(), error.name()), False
    return error.name(), error.str(), error.retriable()


contract.describe = describe


def settings(job, **more):
    conf = {
        "bootstrap.servers": job.bootstrap,
        "security.protocol": job.protocol,
        "client.id": job.client_id or "confluent",
        "error_cb": notices,
        "log_level": 0,
    }
    if job.tls:
        conf["ssl.ca.location"] = job.ca
    if job.tls and job.cert:
        conf.update({"ssl.certificate.location": job.cert, "ssl.key.location": job.key})
    if job.sasl:
        conf.update({"sasl.mechanism": job.mechanism, "sasl.username": job.user, "sasl.password": job.password})
    return {**conf, **more, **job.settings}


def version(_):
    return {"name": "confluent-kafka", "version": "%s (librdkafka %s)" % (importlib.metadata.version("confluent-kafka"), ck.libversion()[0])}


def metadata(job):
    client = admin.AdminClient(settings(job))
    seen = client.list_topics(timeout=job.left())
    return {
        "cluster": seen.cluster_id,
        "brokers": [{"id": b.id, "host": b.host, "port": b.port} for b in seen.brokers.values()],
        "topics": sorted(seen.topics),
    }


def result(futures):
    """Waits for the futures of an admin call, and returns what they give by name."""
    if not isinstance(futures, dict):
        return futures.result()
    return {str(name): future.result() for name, future in futures.items()}


def administrate(job):
    client, steps = admin.AdminClient(settings(job)), Steps()
    patience = {"request_timeout": job.left()}
    steps.run("create", lambda: result(client.create_topics([admin.NewTopic(job.topic, 2, 1)], **patience)))
    steps.run("describe", lambda: described(client, job.topic, patience))
    steps.run("delete", lambda: result(client.delete_topics([job.topic], **patience)))


def described(client, topic, patience):
    topics = result(client.describe_topics(ck.TopicCollection([topic]), include_authorized_operations=True, **patience))
    return {
        "partitions": len(topics[topic].partitions),
        "operations": sorted(o.name for o in topics[topic].authorized_operations),
    }


def producing(job, **more):
    return ck.Producer(settings(job, **{
        "enable.idempotence": True,
        "compression.type": job.compression,
        "message.max.bytes": 20_000_000,
        "message.timeout.ms": job.timeout_ms,
        **more,
    }))


def send(producer, job, numbers, seconds=None, aborted=False):
    """Produces records, waits until each was delivered or was not, and raises what the first failed with."""
    failed, left = [], []

    def delivered(error, message):
        left.pop()
        if error is not None:
            failed.append(error)
        else:
            send.offset = message.offset()

    for i in numbers:
        key, value, headers = job.record(i, aborted)
        left.append(i)
        while True:
            try:
                producer.produce(job.topic, value, key=key, headers=headers, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush((job.left() if seconds is None else seconds) + 1)
    if failed:
        raise ck.KafkaException(failed[0])
    if left:
        raise Timeout("%d records were neither delivered nor failed" % len(left))


def produce(job):
    produced = 0
    for _ in job.codecs():
        send(producing(job), job, range(job.count))
        produced += job.count
    return {"produced": produced, "idempotent": True}


def transact(job):
    limit = min(job.timeout_ms, 60000)
    producer = producing(job, **{"transactional.id": job.txid, "transaction.timeout.ms": limit, "message.timeout.ms": limit})
    producer.init_transactions(job.left())
    producer.begin_transaction()
    send(producer, job, range(job.count))
    producer.commit_transaction(job.left())
    producer.begin_transaction()
    send(producer, job, range(job.count), aborted=True)
    producer.abort_transaction(job.left())
    return {"committed": job.count, "aborted": job.count}


def consuming(job, **more):
    conf = {
        "group.id": job.group,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "group.protocol": job.group_protocol,
        "fetch.message.max.bytes": 20_000_000,
        "receive.message.max.bytes": 100_000_000,
    }
    if job.group_protocol == "classic":
        conf.update({"session.timeout.ms": job.session_ms, "heartbeat.interval.ms": 1000})
    if job.instance_id:
        conf["group.instance.id"] = job.instance_id
    return ck.Consumer(settings(job, **conf, **more))


def transient(error):
    """Whether a consumer goes on by itself after error, which it only told of: what is down, what has no topic yet."""
    return error.name() in ("_PARTITION_EOF", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED")


def consume(job):
    consumer, seen = consuming(job), Seen()
    try:
        consumer.subscribe([job.topic])
        while seen.count < job.count and job.left() > 0:
            message = consumer.poll(min(0.2, job.left()))
            if message is None:
                if notices.fatal is not None:
                    raise ck.KafkaException(notices.fatal)
                continue
            if message.error() is not None:
                if not transient(message.error()):
                    raise ck.KafkaException(message.error())
                continue
            seen.add(message.key(), message.value(), message.headers())
        seen.need(job.count)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return seen.fields()


def loop(job):
    def connect():
        consumer = consuming(job)
        consumer.subscribe([job.topic])
        return producing(job, **{"message.timeout.ms": job.try_ms}), consumer

    def attempt(clients, i):
        producer, consumer = clients
        send(producer, job, [i], job.try_ms / 1000)
        until, want = time.monotonic() + job.try_ms / 1000, send.offset
        while time.monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                raise ck.KafkaException(message.error())
            if message.offset() >= want:
                return want
        raise Timeout("record %d was produced at offset %d but not consumed in %d ms" % (i, want, job.try_ms))

    def gave_up(error, _):
        return isinstance(error, ck.KafkaException) and error.args[0].fatal()

    asyncio.run(contract.tries(job, connect, attempt, gave_up))


def member(job):
    consumer = consuming(job)

    def tell(change):
        return lambda _, partitions: say(ok=True, change=change, partitions=sorted(p.partition for p in partitions))

    consumer.subscribe([job.topic], on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost"))
    while not job.over():
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None and not transient(message.error()):
            raise ck.KafkaException(message.error())
    consumer.close()


def share(job):
    earliest = admin.ConfigResource(admin.ResourceType.GROUP, job.group, incremental_configs=[admin.ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=admin.AlterConfigOpType.SET)])
    client = admin.AdminClient(settings(job))
    result(client.incremental_alter_configs([earliest]))
    consumer, seen = ck.ShareConsumer(settings(job, **{"group.id": job.group, "share.acknowledgement.mode": "implicit"})), Seen()
    consumer.subscribe([job.topic])
    while seen.count < job.count and job.left() > 0:
        for message in consumer.poll(min(0.5, job.left())) or []:
            if message.error() is not None:
                raise ck.KafkaException(message.error())
            seen.add(message.key(), message.value(), message.headers())
    seen.need(job.count)
    consumer.commit_sync(job.left())
    consumer.close()
    return seen.fields()


def manage(job):
    client, steps = admin.AdminClient(settings(job)), Steps(job.pause_ms / 1000)
    patience = {"request_timeout": 15}
    topic, partition = job.topic, ck.TopicPartition(job.topic, 0)
    on_topic = lambda entries: admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=entries)  # noqa: E731
    entry = lambda name, value, op: admin.ConfigEntry(name, value, incremental_operation=op)  # noqa: E731
    op = admin.AlterConfigOpType

    def configs(kind, name, *keys):
        found = list(result(client.describe_configs([admin.ConfigResource(kind, name)], **patience)).values())[0]
        return {k: [found[k].value, admin.ConfigSource(found[k].source).name] for k in keys if k in found}

    def offsets(spec):
        return list(result(client.list_offsets({partition: spec}, **patience)).values())[0].offset

    steps.run("create topics", lambda: result(client.create_topics(
        [admin.NewTopic(topic, 2, 1, config={"retention.ms": "3600000"})], **patience)))
    steps.run("create topics that exist", lambda: result(client.create_topics([admin.NewTopic(topic, 2, 1)], **patience)))
    steps.run("create topics with a bad config", lambda: result(client.create_topics(
        [admin.NewTopic(topic + "-bad", 2, 1, config={"retention.ms": "soon"})], **patience)))
    steps.run("create topics, validate only", lambda: result(client.create_topics(
        [admin.NewTopic(topic + "-dry", 2, 1)], validate_only=True, **patience)))
    steps.run("list topics", lambda: sorted(t for t in client.list_topics(timeout=15).topics if t.startswith(topic)))
    steps.run("describe topics", lambda: described(client, topic, patience))
    steps.run("create partitions", lambda: result(client.create_partitions([admin.NewPartitions(topic, 4)], **patience)))
    steps.run("create fewer partitions", lambda: result(client.create_partitions([admin.NewPartitions(topic, 1)], **patience)))
    steps.run("describe configs of a topic", lambda: configs(
        admin.ResourceType.TOPIC, topic, "retention.ms", "cleanup.policy", "max.message.bytes"))
    steps.run("describe configs of a broker", lambda: configs(
        admin.ResourceType.BROKER, str(job.broker), "num.io.threads", "max.connections"))
    steps.run("incremental alter configs", lambda: result(client.incremental_alter_configs([on_topic([
        entry("retention.ms", "7200000", op.SET), entry("cleanup.policy", "compact", op.APPEND)])], **patience)))
    steps.run("describe configs altered", lambda: configs(admin.ResourceType.TOPIC, topic, "retention.ms", "cleanup.policy"))
    steps.run("incremental alter configs, delete and subtract", lambda: result(client.incremental_alter_configs([on_topic([
        entry("retention.ms", None, op.DELETE), entry("cleanup.policy", "compact", op.SUBTRACT)])], **patience)))
    steps.run("incremental alter configs, unknown", lambda: result(client.incremental_alter_configs([on_topic([
        entry("no.such.config", "1", op.SET)])], **patience)))
    steps.run("alter configs", lambda: result(client.alter_configs(
        [admin.ConfigResource(admin.ResourceType.TOPIC, topic, set_config={"retention.ms": "1800000"})], **patience)))
    steps.run("describe configs replaced", lambda: configs(admin.ResourceType.TOPIC, topic, "retention.ms", "cleanup.policy"))
    steps.run("produce", lambda: send(producing(job, partitioner="consistent"), job, [1, 1, 1]))
    consumer = consuming(job)
    consumer.assign([ck.TopicPartition(topic, p, 0) for p in range(4)])
    steps.run("commit offsets", lambda: [p.offset for p in consumer.commit(
        offsets=[ck.TopicPartition(topic, 0, 1)], asynchronous=False)])
    steps.run("list offsets, earliest", lambda: offsets(admin.OffsetSpec.earliest()))
    steps.run("list offsets, latest", lambda: offsets(admin.OffsetSpec.latest()))
    steps.run("list consumer groups", lambda: sorted(
        (g.group_id, g.state.name, g.type.name) for g in client.list_consumer_groups(**patience).result().valid
        if g.group_id == job.group))
    steps.run("list consumer groups, classic and empty", lambda: sorted(g.group_id for g in client.list_consumer_groups(
        states={ck.ConsumerGroupState.EMPTY}, types={ck.ConsumerGroupType.CLASSIC}, **patience).result().valid
        if g.group_id == job.group))
    steps.run("describe consumer groups", lambda: [(g.group_id, g.state.name, len(g.members)) for g in result(
        client.describe_consumer_groups([job.group], include_authorized_operations=True, **patience)).values()])
    steps.run("describe an unknown group", lambda: [(g.group_id, g.state.name) for g in result(
        client.describe_consumer_groups([job.group + "-unknown"], **patience)).values()])
    one_group = lambda *p: [ck.ConsumerGroupTopicPartitions(job.group, list(p) or None)]  # noqa: E731
    steps.run("list consumer group offsets", lambda: [(p.partition, p.offset) for g in result(
        client.list_consumer_group_offsets(one_group(), **patience)).values() for p in g.topic_partitions])
    steps.run("alter consumer group offsets", lambda: [(p.partition, p.offset) for g in result(
        client.alter_consumer_group_offsets(one_group(ck.TopicPartition(topic, 0, 2)), **patience)).values()
        for p in g.topic_partitions])
    consumer.close()
    steps.run("delete consumer groups", lambda: result(client.delete_consumer_groups([job.group], **patience)))
    steps.run("delete consumer groups that are gone", lambda: result(client.delete_consumer_groups([job.group], **patience)))
    steps.run("delete records", lambda: [r.low_watermark for r in result(client.delete_records(
        [ck.TopicPartition(topic, 0, ck.OFFSET_END)], **patience)).values()])
    steps.run("delete records beyond the end", lambda: [r.low_watermark for r in result(client.delete_records(
        [ck.TopicPartition(topic, 0, 1000)], **patience)).values()])
    acl = lambda kind, host="10.0.0.0/8": kind(  # noqa: E731
        admin.ResourceType.TOPIC, topic, admin.ResourcePatternType.LITERAL, "User:erin", host,
        admin.AclOperation.READ, admin.AclPermissionType.ALLOW)
    rules = lambda found: sorted(  # noqa: E731
        (b.restype.name, b.name, b.principal, b.host, b.operation.name, b.permission_type.name) for b in found)
    steps.run("create acls", lambda: result(client.create_acls([acl(admin.AclBinding)], **patience)) and "created")
    steps.run("create acls with a bad range", lambda: result(
        client.create_acls([acl(admin.AclBinding, "10.0.0.0/33")], **patience)) and "created")
    steps.run("describe acls", lambda: rules(result(client.describe_acls(acl(admin.AclBindingFilter), **patience))))
    steps.run("delete acls", lambda: [rules(found) for found in result(
        client.delete_acls([acl(admin.AclBindingFilter)], **patience)).values()])
    mechanism = admin.ScramMechanism.SCRAM_SHA_256
    steps.run("describe scram users that are none", lambda: str(result(
        client.describe_user_scram_credentials(["erin"], **patience))))
    steps.run("alter scram users", lambda: result(client.alter_user_scram_credentials(
        [admin.UserScramCredentialUpsertion("erin", admin.ScramCredentialInfo(mechanism, 4096), b"erin-secret")], **patience)))
    steps.run("describe scram users", lambda: [(i.mechanism.name, i.iterations) for u in result(
        client.describe_user_scram_credentials(["erin"], **patience)).values() for i in u.scram_credential_infos])
    steps.run("delete scram users", lambda: result(client.alter_user_scram_credentials(
        [admin.UserScramCredentialDeletion("erin", mechanism)], **patience)))
    steps.run("describe cluster", lambda: (lambda c: (
        len(c.nodes), c.controller.id, sorted(o.name for o in c.authorized_operations)))(
        client.describe_cluster(include_authorized_operations=True, **patience).result()))
    steps.run("elect leaders", lambda: [str(e) for e in client.elect_leaders(
        ck.ElectionType.PREFERRED, [partition]).result().values()])
    steps.run("delete topics", lambda: result(client.delete_topics([topic], **patience)))
    steps.run("delete topics that are gone", lambda: result(client.delete_topics([topic], **patience)))


contract.main({
    "version": version, "metadata": metadata, "admin": administrate, "produce": produce, "transact": transact,
    "consume": consume, "loop": loop, "member": member, "share": share, "manage": manage,
})
