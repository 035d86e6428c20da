/** A real Kafka, one node in KRaft mode: `KAFKA_JARS="$(.ci/kafka)"`, or the cache that it fills. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Admin, Consumer, MessagesStreamModes, stringDeserializers } from '@platformatic/kafka'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { until } from './until.ts'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const jars = process.env['KAFKA_JARS'] ?? join(cache, 'bidweir', 'kafka-3.9.1')

export const kafkaAbsent = existsSync(join(jars, 'complete')) ? false : 'kafka not found'

export interface Kafka {
  broker: string
  /** Ends it, or starts it again with what it has stored. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

const java = (main: string, ...args: string[]) => [
  ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
  ...['-cp', join(jars, '*'), main, ...args],
]

export async function startKafka(): Promise<Kafka> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-kafka-'))
  const [port, controller] = [await freePort(), await freePort()]
  const file = join(folder, 'server.properties')
  writeFileSync(
    file,
    [
      'process.roles=broker,controller',
      'node.id=1',
      `controller.quorum.voters=1@127.0.0.1:${controller}`,
      `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
      `advertised.listeners=PLAINTEXT://127.0.0.1:${port}`,
      'controller.listener.names=CONTROLLER',
      'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
      `log.dirs=${join(folder, 'logs')}`,
      'offsets.topic.replication.factor=1',
      'offsets.topic.num.partitions=1',
      'transaction.state.log.replication.factor=1',
      'transaction.state.log.min.isr=1',
      'group.initial.rebalance.delay.ms=0',
      'num.partitions=3',
    ].join('\n'),
  )
  const id = randomBytes(16).toString('base64url')
  execFileSync('java', java('kafka.tools.StorageTool', 'format', '-t', id, '-c', file), {
    stdio: 'ignore',
  })
  const broker = `127.0.0.1:${port}`
  let child: ChildProcess
  let output = ''
  const start = async () => {
    child = endWithTest(
      spawn('java', java('kafka.Kafka', file), { stdio: ['ignore', 'pipe', 'pipe'] }),
    )
    for (const stream of [child.stdout!, child.stderr!])
      stream.on('data', (chunk) => {
        output = (output + chunk).slice(-4000)
      })
    const answers = async () => {
      if (child.exitCode !== null) throw new Error(`Kafka ended: ${output}`)
      const admin = new Admin({
        clientId: 'test',
        bootstrapBrokers: [broker],
        retries: false,
        connectTimeout: 2000,
      })
      try {
        await admin.listTopics()
        return true
      } catch {
        return false
      } finally {
        await admin.close().catch(() => undefined)
      }
    }
    await until(answers, { what: 'a Kafka that answers', limit: 120_000 })
  }
  const stop = () =>
    new Promise<void>((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve()
      child.once('exit', () => resolve())
      child.kill('SIGKILL')
    })
  await start()
  return {
    broker,
    start,
    stop,
    async close() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Reads a topic from its beginning. `messages` grows until it is closed. */
export async function readTopic(broker: string, topic: string) {
  const consumer = new Consumer({
    clientId: 'test',
    groupId: `test-${randomBytes(6).toString('hex')}`,
    bootstrapBrokers: [broker],
    deserializers: stringDeserializers,
  })
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.EARLIEST,
    autocommit: false,
    maxWaitTime: 200,
  })
  const messages: { key: string; value: string }[] = []
  stream.on('data', ({ key, value }) => void messages.push({ key, value }))
  stream.on('error', () => undefined)
  return {
    messages,
    async close() {
      await consumer.close(true)
    },
  }
}
