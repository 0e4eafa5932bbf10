"""kafka-python, spoken to as ../contract.py says."""

import asyncio
import importlib.metadata
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import contract  # noqa: E402
import kafka  # noqa: E402
from contract import Seen, Steps, Timeout, Unsupported, say  # noqa: E402
from kafka import admin, errors  # noqa: E402
from kafka.structs import OffsetAndMetadata  # noqa: E402


def settings(job, **more):
    conf = {
        "bootstrap_servers": job.bootstrap.split(","),
        "security_protocol": job.protocol,
        "client_id": job.client_id or "kafka-python",
        "bootstrap_timeout_ms": min(30000, job.timeout_ms),
    }
    if job.tls:
        conf["ssl_cafile"] = job.ca
    if job.tls and job.cert:
        conf.update(ssl_certfile=job.cert, ssl_keyfile=job.key)
    if job.sasl:
        conf.update(sasl_mechanism=job.mechanism, sasl_plain_username=job.user, sasl_plain_password=job.password)
    return {**conf, **more, **job.settings}


def version(_):
    return {"name": "kafka-python", "version": importlib.metadata.version("kafka-python")}


def metadata(job):
    client = admin.KafkaAdminClient(**settings(job))
    cluster = client.describe_cluster()
    return {
        "cluster": cluster["cluster_id"],
        "brokers": [{"id": b["broker_id"], "host": b["host"], "port": b["port"]} for b in cluster["brokers"]],
        "topics": sorted(client.list_topics()),
    }


def administrate(job):
    client, steps = admin.KafkaAdminClient(**settings(job)), Steps()
    steps.run("create", lambda: client.create_topics({job.topic: {"num_partitions": 2, "replication_factor": 1}}) and None)
    steps.run("describe", lambda: described(client, job.topic))
    steps.run("delete", lambda: client.delete_topics([job.topic]) and None)


def described(client, topic):
    found = client.describe_topics([topic])[0]
    raise_code(found["error_code"])
    return {"partitions": len(found["partitions"]), "operations": sorted(found.get("authorized_operations") or [])}


def raise_code(code, text=None):
    if code:
        raise errors.for_code(code)(text) if text else errors.for_code(code)()


def producing(job, **more):
    return kafka.KafkaProducer(**settings(
        job,
        acks="all",
        enable_idempotence=True,
        compression_type=None if job.compression == "none" else job.compression,
        max_request_size=20_000_000,
        max_block_ms=job.timeout_ms,
        delivery_timeout_ms=max(job.timeout_ms, 30001),
        **more,
    ))


def send(producer, job, numbers, aborted=False):
    """Produces records and returns the offset of the last one, which is known when all were delivered."""
    futures = []
    for i in numbers:
        key, value, headers = job.record(i, aborted)
        futures.append(producer.send(job.topic, value=value, key=key, headers=headers))
    producer.flush(timeout=job.left() + 1)
    return [f.get(timeout=1).offset for f in futures][-1]


def produce(job):
    produced = 0
    for _ in job.codecs():
        send(producing(job), job, range(job.count))
        produced += job.count
    return {"produced": produced, "idempotent": True}


def transact(job):
    producer = producing(job, transactional_id=job.txid, transaction_timeout_ms=min(job.timeout_ms, 60000))
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, job, range(job.count))
    producer.commit_transaction()
    producer.begin_transaction()
    send(producer, job, range(job.count), aborted=True)
    producer.abort_transaction()
    return {"committed": job.count, "aborted": job.count}


def consuming(job, **more):
    if job.group_protocol != "classic":
        raise Unsupported("kafka-python has no group protocol %r (KIP-848)" % job.group_protocol)
    conf = {
        "group_id": job.group,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "session_timeout_ms": job.session_ms,
        "heartbeat_interval_ms": 1000,
        "max_partition_fetch_bytes": 20_000_000,
        **more,
    }
    if job.instance_id:
        conf["group_instance_id"] = job.instance_id
    return kafka.KafkaConsumer(**settings(job, **conf))


def records(consumer, seconds):
    return [r for batch in consumer.poll(timeout_ms=int(seconds * 1000)).values() for r in batch]


def consume(job):
    consumer, seen = consuming(job, max_poll_records=job.count), Seen()
    try:
        consumer.subscribe([job.topic])
        while seen.count < job.count and job.left() > 0:
            for record in records(consumer, min(0.2, job.left())):
                seen.add(record.key, record.value, record.headers)
        seen.need(job.count)
        consumer.commit()
    finally:
        consumer.close(timeout_ms=5000)
    return seen.fields()


def loop(job):
    patience = job.try_ms / 1000

    def connect():
        left, job.timeout_ms = job.timeout_ms, job.try_ms  # each wait of the clients is a try's
        try:
            producer, consumer = producing(job), consuming(job)
        finally:
            job.timeout_ms = left
        consumer.subscribe([job.topic])
        return producer, consumer

    def attempt(clients, i):
        producer, consumer = clients
        key, value, headers = job.record(i)
        want = producer.send(job.topic, value=value, key=key, headers=headers).get(timeout=patience).offset
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if any(r.offset >= want for r in records(consumer, 0.2)):
                return want
        raise Timeout("record %d was produced at offset %d but not consumed in %d ms" % (i, want, job.try_ms))

    asyncio.run(contract.tries(job, connect, attempt))


class Tell(kafka.ConsumerRebalanceListener):
    """Tells of each change of the assignment."""

    def on_partitions_assigned(self, assigned):
        say(ok=True, change="assigned", partitions=sorted(p.partition for p in assigned))

    def on_partitions_revoked(self, revoked):
        say(ok=True, change="revoked", partitions=sorted(p.partition for p in revoked))


def member(job):
    consumer = consuming(job)
    consumer.subscribe([job.topic], listener=Tell())
    while not job.over():
        records(consumer, 0.1)
    consumer.close()


def share(_):
    raise Unsupported("kafka-python has no share consumer")


def manage(job):
    client, steps = admin.KafkaAdminClient(**settings(job)), Steps(job.pause_ms / 1000)
    topic, partition = job.topic, kafka.TopicPartition(job.topic, 0)
    op = admin.AlterConfigOp
    on_topic = lambda configs=None: admin.ConfigResource(admin.ConfigResourceType.TOPIC, topic, configs=configs)  # noqa: E731

    def configs(kind, name, *keys):
        found = client.describe_configs([admin.ConfigResource(kind, name)], config_filter="all")
        found = next(iter(next(iter(found.values())).values()))
        return {k: [found[k]["value"], str(found[k]["config_source"])] for k in keys if k in found}

    def alter(**options):
        return lambda values: client.alter_configs([on_topic(values)], **options)

    def created(name, **options):
        client.create_topics({name: {"num_partitions": 2, "replication_factor": 1, **options}})

    steps.run("create topics", lambda: created(topic, configs={"retention.ms": "3600000"}))
    steps.run("create topics that exist", lambda: created(topic))
    steps.run("create topics with a bad config", lambda: created(topic + "-bad", configs={"retention.ms": "soon"}))
    steps.run("create topics, validate only", lambda: client.create_topics([topic + "-dry"], validate_only=True) and None)
    steps.run("list topics", lambda: sorted(t for t in client.list_topics() if t.startswith(topic)))
    steps.run("describe topics", lambda: described(client, topic))
    steps.run("describe topic partitions", lambda: [
        len(t["partitions"]) for t in client.describe_topic_partitions([topic])["topics"]])
    steps.run("create partitions", lambda: client.create_partitions({topic: 4}) and None)
    steps.run("create fewer partitions", lambda: client.create_partitions({topic: 1}) and None)
    kinds = admin.ConfigResourceType
    steps.run("describe configs of a topic", lambda: configs(
        kinds.TOPIC, topic, "retention.ms", "cleanup.policy", "max.message.bytes"))
    steps.run("describe configs of a broker", lambda: configs(
        kinds.BROKER, str(job.broker), "num.io.threads", "max.connections"))
    steps.run("incremental alter configs", lambda: alter()(
        {"retention.ms": (op.SET, "7200000"), "cleanup.policy": (op.APPEND, "compact")}))
    steps.run("describe configs altered", lambda: configs(kinds.TOPIC, topic, "retention.ms", "cleanup.policy"))
    steps.run("incremental alter configs, delete and subtract", lambda: alter()(
        {"retention.ms": (op.DELETE, None), "cleanup.policy": (op.SUBTRACT, "compact")}))
    steps.run("incremental alter configs, unknown", lambda: alter(raise_on_unknown=False)({"no.such.config": "1"}))
    steps.run("alter configs", lambda: alter(incremental=False)({"retention.ms": "1800000"}))
    steps.run("describe configs replaced", lambda: configs(kinds.TOPIC, topic, "retention.ms", "cleanup.policy"))
    steps.run("reset configs", lambda: client.reset_configs([on_topic(["retention.ms"])]))
    steps.run("list config resources", lambda: sorted(
        str(r) for r in client.list_config_resources() if topic in str(r)))
    producer = producing(job)
    steps.run("produce", lambda: [producer.send(topic, value=b"x", partition=0).get(timeout=15).offset for _ in range(3)])
    consumer = consuming(job)
    consumer.assign([partition])
    steps.run("commit offsets", lambda: consumer.commit({partition: OffsetAndMetadata(1, "", -1)}))
    spec = kafka.OffsetSpec
    for name in ("EARLIEST", "LATEST", "MAX_TIMESTAMP", "EARLIEST_LOCAL", "LATEST_TIERED"):
        steps.run("list offsets, " + name.lower(), lambda name=name: client.list_partition_offsets(
            {partition: spec[name]})[partition].offset)
    group = lambda g: [g["group_id"], g.get("group_state"), g.get("group_type"), g.get("protocol_type")]  # noqa: E731
    steps.run("list groups", lambda: [group(g) for g in client.list_groups() if g["group_id"] == job.group])
    steps.run("list groups, classic and empty", lambda: [group(g) for g in client.list_groups(
        states_filter=["Empty"], types_filter=["classic"]) if g["group_id"] == job.group])
    steps.run("describe groups", lambda: [
        [g["group_id"], g["group_state"], len(g["members"])]
        for g in client.describe_groups([job.group], include_authorized_operations=True).values()])
    steps.run("describe an unknown group", lambda: [
        [g["group_id"], g["group_state"]] for g in client.describe_groups([job.group + "-unknown"]).values()])
    steps.run("list group offsets", lambda: [o.offset for o in client.list_group_offsets([job.group])[job.group].values()])
    steps.run("alter group offsets", lambda: [e.__name__ for e in client.alter_group_offsets(
        job.group, {partition: OffsetAndMetadata(2, "", -1)}).values()])
    steps.run("reset group offsets", lambda: [str(r) for r in client.reset_group_offsets(
        job.group, {partition: spec.EARLIEST}).values()])
    steps.run("delete group offsets", lambda: [e.__name__ for e in client.delete_group_offsets(job.group, [partition]).values()])
    consumer.close()
    steps.run("remove group members", lambda: [e.__name__ for e in client.remove_group_members(
        job.group, [admin.MemberToRemove(group_instance_id="nobody")]).values()])
    steps.run("delete groups", lambda: [str(e) for e in client.delete_groups([job.group]).values()])
    steps.run("delete groups that are gone", lambda: [str(e) for e in client.delete_groups([job.group]).values()])
    steps.run("delete records", lambda: [r["low_watermark"] for r in client.delete_records({partition: -1}).values()])
    steps.run("delete records beyond the end", lambda: [r["error_code"] for r in client.delete_records({partition: 1000}).values()])
    manage_security(job, client, steps)
    steps.run("describe producers", lambda: [len(p) for p in client.describe_producers([partition]).values()])
    steps.run("list transactions", lambda: len(client.list_transactions()) >= 0)
    steps.run("describe transactions that are none", lambda: str(client.describe_transactions([job.txid + "-none"])))
    steps.run("describe log dirs", lambda: len(client.describe_log_dirs()))
    steps.run("describe quorum", lambda: len(client.describe_metadata_quorum()["topics"]))
    steps.run("describe features", lambda: sorted(client.describe_features()))
    steps.run("api versions", lambda: len(client.api_versions()) > 0)
    steps.run("describe cluster", lambda: sorted(client.describe_cluster().get("authorized_operations") or []))
    steps.run("elect leaders", lambda: client.elect_leaders(0, {topic: [0]}).error_code)
    steps.run("list reassignments", lambda: str(client.list_partition_reassignments({topic: [0]})))
    steps.run("alter reassignments", lambda: str(client.alter_partition_reassignments({partition: None})))
    steps.run("delete topics", lambda: client.delete_topics([topic]) and None)
    steps.run("delete topics that are gone", lambda: client.delete_topics([topic]) and None)


def manage_security(job, client, steps):
    def rule(kind, pattern, host="10.0.0.0/8"):
        return kind("User:erin", host, admin.ACLOperation.READ, admin.ACLPermissionType.ALLOW,
                    pattern(admin.ResourceType.TOPIC, job.topic, admin.ACLResourcePatternType.LITERAL))

    def create(host):
        made = client.create_acls([rule(admin.ACL, admin.ResourcePattern, host)])
        if made["failed"]:
            raise made["failed"][0]
        return len(made["succeeded"])

    wanted = rule(admin.ACLFilter, admin.ResourcePatternFilter)
    steps.run("create acls", lambda: create("10.0.0.0/8"))
    steps.run("create acls with a bad range", lambda: create("10.0.0.0/33"))
    steps.run("describe acls", lambda: [str(a) for a in client.describe_acls(wanted)[0]])
    steps.run("delete acls", lambda: [len(found[1]) for found in client.delete_acls([wanted])])
    steps.run("describe scram users that are none", lambda: str(client.describe_user_scram_credentials(["erin"])))
    mechanism = admin.ScramMechanism.SCRAM_SHA_256
    steps.run("alter scram users", lambda: client.alter_user_scram_credentials(
        [admin.UserScramCredentialUpsertion("erin", mechanism, "erin-secret", iterations=4096)]))
    steps.run("describe scram users", lambda: str(client.describe_user_scram_credentials(["erin"])))
    steps.run("delete scram users", lambda: client.alter_user_scram_credentials(
        [admin.UserScramCredentialDeletion("erin", mechanism)]))


contract.main({
    "version": version, "metadata": metadata, "admin": administrate, "produce": produce, "transact": transact,
    "consume": consume, "loop": loop, "member": member, "share": share, "manage": manage,
})
