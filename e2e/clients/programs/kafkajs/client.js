// kafkajs, spoken to as ../contract.py says.
'use strict'

const fs = require('fs')
const {
  Kafka, logLevel, CompressionTypes, CompressionCodecs, AclResourceTypes, AclOperationTypes, AclPermissionTypes,
  ResourcePatternTypes, ConfigResourceTypes,
} = require('kafkajs')

const INPUTS = {
  op: '', bootstrap: '', protocol: 'PLAINTEXT', ca: '', cert: '', key: '', mechanism: 'PLAIN', user: '', password: '',
  topic: '', group: '', txid: '', count: 1, timeout_ms: 30000, client_id: 'kafkajs',
  compression: 'none', size: 0, group_protocol: 'classic', instance_id: '', try_ms: 10000, pause_ms: 200, broker: 1, settings: {},
}
const GRACE = 20000 // ms past its time that a job may still need to fail by itself
const began = Date.now()
let stdinClosed = false

class Unsupported extends Error {}
class Timeout extends Error { // ours: the library reported nothing, and the time was over
  constructor (text) {
    super(text)
    this.name = 'Timeout'
    this.retriable = true
  }
}

const say = fields => fs.writeSync(1, JSON.stringify(fields) + '\n')
const since = start => Date.now() - start
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// failure names the broker's own error where there is one; kafkajs often wraps it in another.
function failure (error) {
  let inner = error
  while (inner.cause instanceof Error) inner = inner.cause
  const first = inner.errors instanceof Array && inner.errors[0] // one for each topic that failed
  const said = first || inner
  const fields = { error: said.type || said.code || said.name, text: said.message, retriable: said.retriable }
  if (inner !== error) fields.wrapped = error.name
  return fields
}

const left = job => Math.max(0, began + job.timeout_ms - Date.now())
const over = job => stdinClosed || left(job) === 0

// within fails with a Timeout when what is promised takes longer: kafkajs has few bounds of its own.
function within (ms, what, promise) {
  let timer
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Timeout(`${what} took more than ${ms} ms`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

function connection (job) {
  const conf = {
    clientId: job.client_id,
    brokers: job.bootstrap.split(','),
    logLevel: logLevel.NOTHING,
    connectionTimeout: 10000,
    // By default kafkajs authenticates again 10 s before the end: with shorter sessions at once, and brokers refuse that for a second.
    reauthenticationThreshold: 1000,
    ssl: false,
  }
  if (job.protocol.endsWith('SSL')) {
    conf.ssl = { ca: [fs.readFileSync(job.ca)] }
    if (job.cert) Object.assign(conf.ssl, { cert: fs.readFileSync(job.cert), key: fs.readFileSync(job.key) })
  }
  if (job.protocol.startsWith('SASL')) {
    conf.sasl = { mechanism: job.mechanism.toLowerCase(), username: job.user, password: job.password }
  }
  // kafkajs cannot read brackets: there is no use in trying as often as it would.
  if (job.bootstrap.includes('[')) conf.retry = { retries: 1 }
  return new Kafka({ ...conf, ...job.settings })
}

function registerCodecs () {
  CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
  CompressionCodecs[CompressionTypes.LZ4] = () => {
    const lz4 = require('lz4-napi')
    return { compress: encoder => lz4.compressFrame(encoder.buffer), decompress: buffer => lz4.decompressFrame(buffer) }
  }
  CompressionCodecs[CompressionTypes.ZSTD] = () => {
    // Its simple form reads no frames that don't say how long their content is.
    const streaming = new Promise(resolve => require('zstd-codec').ZstdCodec.run(zstd => resolve(new zstd.Streaming())))
    return {
      compress: async encoder => Buffer.from((await streaming).compress(encoder.buffer)),
      decompress: async buffer => Buffer.from((await streaming).decompress(buffer)),
    }
  }
}

function codec (job) {
  const codecs = {
    none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
  }
  if (!(job.compression in codecs)) throw new Unsupported(`no codec ${job.compression}`)
  return codecs[job.compression]
}

function record (job, i, aborted = false) {
  return {
    key: i % 2 ? `k${i}` : null,
    value: `${aborted ? 'aborted-' : ''}${job.client_id}-${i}`.padEnd(job.size, '.'),
    headers: { n: String(i) },
  }
}

const range = n => Array.from({ length: n }, (_, i) => i)

function batch (job, numbers, aborted) {
  return { topic: job.topic, acks: -1, compression: codec(job), messages: numbers.map(i => record(job, i, aborted)) }
}

function version () {
  return { name: 'kafkajs', version: require('kafkajs/package.json').version }
}

// administering makes an op of call(job, admin) with an admin that is connected and disconnected.
const administering = call => async job => {
  const admin = connection(job).admin()
  try {
    await within(left(job), 'connecting', admin.connect())
    return await within(left(job), 'the call', call(job, admin))
  } finally {
    await within(5000, 'disconnecting', admin.disconnect()).catch(() => {})
  }
}

const metadata = administering(async (job, admin) => {
  const cluster = await admin.describeCluster()
  return {
    cluster: cluster.clusterId,
    brokers: cluster.brokers.map(b => ({ id: b.nodeId, host: b.host, port: b.port })),
    topics: (await admin.listTopics()).sort(),
  }
})

let pause = 0 // ms between two steps of manage: a cluster comes to know some time later what was altered

async function step (name, call) {
  try {
    const result = await call()
    say({ ok: true, step: name, result: result === undefined ? null : result })
  } catch (error) {
    say({ step: name, ...failure(error) })
  }
  await sleep(pause)
}

const described = async (admin, topic) => {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  return { partitions: topics[0].partitions.length }
}

// created fails where kafkajs says nothing but false: when the topic exists.
async function created (admin, name, more = {}) {
  const made = await admin.createTopics({
    waitForLeaders: true, topics: [{ topic: name, numPartitions: 2, replicationFactor: 1, ...more.topic }], ...more.request,
  })
  if (!made) throw Object.assign(new Error('createTopics returned false'), { type: 'TOPIC_ALREADY_EXISTS', retriable: false })
}

const administrate = administering(async (job, admin) => {
  await step('create', () => created(admin, job.topic))
  await step('describe', () => described(admin, job.topic))
  await step('delete', () => admin.deleteTopics({ topics: [job.topic] }))
})

async function produce (job) {
  const producer = connection(job).producer({ idempotent: true })
  await within(left(job), 'connecting', producer.connect())
  let produced = 0
  for (const compression of job.compression.split(',')) {
    await within(left(job), 'producing', producer.send(batch({ ...job, compression }, range(job.count))))
    produced += job.count
  }
  await producer.disconnect()
  return { produced, idempotent: true }
}

async function transact (job) {
  const producer = connection(job).producer({
    idempotent: true, maxInFlightRequests: 1, transactionalId: job.txid, transactionTimeout: Math.min(job.timeout_ms, 60000),
  })
  await within(left(job), 'connecting', producer.connect())
  const committed = await within(left(job), 'beginning', producer.transaction())
  await within(left(job), 'producing', committed.send(batch(job, range(job.count))))
  await within(left(job), 'committing', committed.commit())
  const aborted = await within(left(job), 'beginning', producer.transaction())
  await within(left(job), 'producing', aborted.send(batch(job, range(job.count), true)))
  await within(left(job), 'aborting', aborted.abort())
  await producer.disconnect()
  return { committed: job.count, aborted: job.count }
}

// consuming starts a consumer; crashed tells of what it can't go on after.
async function consuming (job, eachMessage, crashed, listen = () => {}) {
  if (job.group_protocol !== 'classic') throw new Unsupported(`kafkajs has no group protocol "${job.group_protocol}" (KIP-848)`)
  if (job.instance_id) throw new Unsupported('kafkajs has no static membership')
  const consumer = connection(job).consumer({
    groupId: job.group, sessionTimeout: 10000, heartbeatInterval: 1000, readUncommitted: false, allowAutoTopicCreation: true,
    maxBytesPerPartition: 20000000, maxBytes: 50000000, maxWaitTimeInMs: 500,
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => crashed(payload.error, payload.restart))
  listen(consumer)
  await within(left(job), 'connecting', consumer.connect())
  await within(left(job), 'subscribing', consumer.subscribe({ topics: [job.topic], fromBeginning: true }))
  await within(left(job), 'starting', consumer.run({ autoCommit: false, eachMessage }))
  return consumer
}

async function consume (job) {
  const seen = { consumed: 0, aborted: 0, null_keys: 0, headers: 0, first: null, last: null }
  const next = {}
  let enough, failed
  const all = new Promise((resolve, reject) => { enough = resolve; failed = reject })
  all.catch(() => {})
  const consumer = await consuming(job, async ({ partition, message }) => {
    if (seen.consumed >= job.count) return
    const value = String(message.value).replace(/\.+$/, '')
    seen.consumed++
    seen.aborted += value.startsWith('aborted-')
    seen.null_keys += message.key === null
    seen.headers += message.headers.n !== undefined
    seen.first = seen.first || value
    seen.last = value
    next[partition] = String(BigInt(message.offset) + 1n)
    if (seen.consumed >= job.count) enough()
  }, (error, restarts) => restarts || failed(error))
  try {
    await within(left(job), 'consuming', all)
  } catch (error) {
    await within(5000, 'disconnecting', consumer.disconnect()).catch(() => {})
    throw error instanceof Timeout ? new Timeout(`consumed ${seen.consumed} of ${job.count} records in time`) : error
  }
  await consumer.commitOffsets(Object.keys(next).map(p => ({ topic: job.topic, partition: Number(p), offset: next[p] })))
  await within(5000, 'disconnecting', consumer.disconnect()).catch(() => {})
  return seen
}

// connectLoop makes the clients of loop. A consumer that kafkajs will not start again is dead, with the reason in crash.
async function connectLoop (job) {
  const clients = { got: {}, crash: null, dead: false, producer: connection(job).producer({ idempotent: true }) }
  try {
    await within(job.try_ms, 'connecting', clients.producer.connect())
    clients.consumer = await consuming(job, async ({ partition, message }) => {
      clients.got[partition] = Number(message.offset)
    }, (error, restarts) => Object.assign(clients, { crash: error, dead: !restarts }))
  } catch (error) {
    await closeLoop(clients)
    throw error
  }
  return clients
}

async function closeLoop (clients) {
  await within(3000, 'disconnecting', clients.producer.disconnect()).catch(() => {})
  if (clients.consumer) await within(3000, 'disconnecting', clients.consumer.disconnect()).catch(() => {})
}

async function attempt (job, clients, i, start) {
  const [sent] = await within(job.try_ms, 'producing', clients.producer.send(batch(job, [i])))
  const want = Number(sent.baseOffset)
  while (!(clients.got[sent.partition] >= want)) {
    if (clients.dead) throw clients.crash
    if (since(start) > job.try_ms) {
      throw clients.crash || new Timeout(`record ${i} was produced at offset ${want} but not consumed in ${job.try_ms} ms`)
    }
    await sleep(10)
  }
  clients.crash = null
  return want
}

async function loop (job) {
  let clients = null
  for (let i = 0; !over(job); i++) {
    const start = Date.now()
    try {
      clients = clients || await connectLoop(job)
      const offset = await attempt(job, clients, i, start)
      say({ ms: since(start), ok: true, n: i, offset })
    } catch (error) {
      const dead = clients !== null && clients.dead
      say({ ms: since(start), n: i, ...failure(error), ...(dead ? { gave_up: true } : {}) })
      if (dead) {
        await closeLoop(clients)
        clients = null
      }
    }
    const rest = Date.now() + Math.min(job.pause_ms, left(job))
    while (Date.now() < rest && !stdinClosed) await sleep(20)
  }
  return undefined
}

async function member (job) {
  let failed = null
  const consumer = await consuming(job, async () => {}, (error, restarts) => { if (!restarts) failed = error }, consumer => {
    let had = []
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      if (had.length > 0) say({ ok: true, change: 'revoked', partitions: had })
      had = (payload.memberAssignment[job.topic] || []).sort((a, b) => a - b)
      say({ ok: true, change: 'assigned', partitions: had })
    })
  })
  while (!over(job) && !failed) await sleep(50)
  if (failed) throw failed
  await within(5000, 'disconnecting', consumer.disconnect()).catch(() => {})
}

async function share () {
  throw new Unsupported('kafkajs has no share consumer')
}

const manage = administering(async (job, admin) => {
  pause = job.pause_ms
  const topic = job.topic
  const configs = async (type, name, ...keys) => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name, configNames: keys }] })
    return Object.fromEntries(resources[0].configEntries.map(e => [e.configName, [e.configValue, e.configSource]]).sort())
  }
  const alter = entries => admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: Object.entries(entries).map(([name, value]) => ({ name, value })) }],
  }).then(() => null)
  await step('create topics', () => created(admin, topic, { topic: { configEntries: [{ name: 'retention.ms', value: '3600000' }] } }))
  await step('create topics that exist', () => created(admin, topic))
  await step('create topics with a bad config', () => created(admin, topic + '-bad', { topic: { configEntries: [{ name: 'retention.ms', value: 'soon' }] } }))
  await step('create topics, validate only', () => created(admin, topic + '-dry', { request: { validateOnly: true, waitForLeaders: false } }))
  await step('list topics', async () => (await admin.listTopics()).filter(t => t.startsWith(topic)).sort())
  await step('describe topics', () => described(admin, topic))
  await step('create partitions', () => admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] }).then(() => null))
  await step('create fewer partitions', () => admin.createPartitions({ topicPartitions: [{ topic, count: 1 }] }).then(() => null))
  await step('describe configs of a topic', () => configs(ConfigResourceTypes.TOPIC, topic, 'retention.ms', 'cleanup.policy', 'max.message.bytes'))
  await step('describe configs of a broker', () => configs(ConfigResourceTypes.BROKER, String(job.broker), 'num.io.threads', 'max.connections'))
  await step('alter configs', () => alter({ 'retention.ms': '1800000' }))
  await step('alter configs, unknown', () => alter({ 'no.such.config': '1' }))
  await step('describe configs replaced', () => configs(ConfigResourceTypes.TOPIC, topic, 'retention.ms', 'cleanup.policy'))
  await step('produce', async () => {
    const producer = connection(job).producer({ idempotent: true })
    await producer.connect()
    for (let i = 0; i < 3; i++) await producer.send({ topic, messages: [{ value: 'x', partition: 0 }] })
    await producer.disconnect()
  })
  await step('fetch topic offsets', async () => (await admin.fetchTopicOffsets(topic)).map(o => [o.partition, o.low, o.high]).sort())
  await step('fetch topic offsets by time', async () => (await admin.fetchTopicOffsetsByTimestamp(topic, 1)).map(o => [o.partition, o.offset]).sort())
  await step('set offsets', () => admin.setOffsets({ groupId: job.group, topic, partitions: [{ partition: 0, offset: '1' }] }))
  await step('fetch offsets', async () => (await admin.fetchOffsets({ groupId: job.group, topics: [topic] }))[0].partitions.map(p => [p.partition, p.offset]).sort())
  await step('reset offsets', () => admin.resetOffsets({ groupId: job.group, topic, earliest: true }))
  await step('list groups', async () => (await admin.listGroups()).groups.filter(g => g.groupId === job.group))
  await step('describe groups', async () => (await admin.describeGroups([job.group])).groups.map(g => [g.groupId, g.state, g.members.length]))
  await step('describe an unknown group', async () => (await admin.describeGroups([job.group + '-unknown'])).groups.map(g => [g.groupId, g.state]))
  await step('delete groups', () => admin.deleteGroups([job.group]))
  await step('delete groups that are gone', () => admin.deleteGroups([job.group]))
  await step('delete records', () => admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] }))
  await step('delete records beyond the end', () => admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1000' }] }))
  await manageAcls(job, admin)
  await step('describe cluster', async () => {
    const cluster = await admin.describeCluster()
    return [cluster.brokers.length, cluster.controller]
  })
  await step('list reassignments', () => admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] }))
  await step('delete topics', () => admin.deleteTopics({ topics: [topic] }))
  await step('delete topics that are gone', () => admin.deleteTopics({ topics: [topic] }))
})

async function manageAcls (job, admin) {
  const rule = host => ({
    resourceType: AclResourceTypes.TOPIC, resourceName: job.topic, resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: 'User:erin', host, operation: AclOperationTypes.READ, permissionType: AclPermissionTypes.ALLOW,
  })
  await step('create acls', () => admin.createAcls({ acl: [rule('10.0.0.0/8')] }))
  await step('create acls with a bad range', () => admin.createAcls({ acl: [rule('10.0.0.0/33')] }))
  await step('describe acls', async () => (await admin.describeAcls(rule('10.0.0.0/8'))).resources.map(
    r => [r.resourceName, r.acls.map(a => [a.principal, a.host, a.operation, a.permissionType])]))
  await step('delete acls', async () => (await admin.deleteAcls({ filters: [rule('10.0.0.0/8')] })).filterResponses.map(
    f => f.matchingAcls.map(a => [a.principal, a.host])))
}

const operations = { version, metadata, admin: administrate, produce, transact, consume, loop, member, share, manage }

function finish () {
  say({ done: true, ms: since(began) })
  process.exit(0) // whatever timers the library still has
}

async function main (job) {
  registerCodecs()
  setTimeout(() => {
    say({ error: 'Hang', text: `the library neither answered nor failed ${GRACE / 1000} s after the job's time was over` })
    finish()
  }, job.timeout_ms + GRACE)
  try {
    if (!(job.op in operations)) throw new Unsupported(`no op "${job.op}"; there are ${Object.keys(operations).join(', ')}`)
    const said = await operations[job.op](job)
    if (said !== undefined) say({ ok: true, ...said })
  } catch (error) {
    say(error instanceof Unsupported ? { unsupported: error.message } : failure(error))
  }
  finish()
}

// What kafkajs throws where nobody waits for it is told of too.
process.on('unhandledRejection', error => say({ notice: error.name, text: error.message }))

let text = ''
let started = false
process.stdin.on('data', more => {
  text += more
  if (started || !text.includes('\n')) return
  started = true
  start(text.slice(0, text.indexOf('\n')))
})
process.stdin.on('end', () => {
  stdinClosed = true
  if (!started) start(text)
  started = true
})

function start (line) {
  const fields = Object.entries(JSON.parse(line)).filter(([, value]) => value !== '' && value !== null)
  const unknown = fields.map(([name]) => name).filter(name => !(name in INPUTS))
  if (unknown.length > 0) throw new Error(`unknown inputs ${unknown}; known are ${Object.keys(INPUTS)}`)
  main({ ...INPUTS, ...Object.fromEntries(fields) })
}
