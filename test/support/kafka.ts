/** A real Kafka, one node in KRaft mode: `KAFKA_JARS="$(.ci/kafka)"`, or the cache that it fills. */
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Admin, Consumer, MessagesStreamModes, stringDeserializers } from '@platformatic/kafka'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { tcpProxy } from './tcp-proxy.ts'
import { startLimit, until } from './until.ts'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const jars = process.env['KAFKA_JARS'] ?? join(cache, 'bidweir', 'kafka-3.9.1')

export const kafkaAbsent = existsSync(join(jars, 'complete')) ? false : 'kafka not found'

export interface Kafka {
  broker: string
  /** By its name, with TLS and SASL; '' without a certificate. */
  secure: string
  /** Refuses connections to `broker` and ends those that are open, or accepts them again. */
  disconnect(): Promise<void>
  reconnect(): Promise<void>
  close(): Promise<void>
}

const java = (main: string, ...args: string[]) => [
  ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
  ...['-cp', join(jars, '*'), main, ...args],
]

export interface Credentials {
  /** Of `localhost`. */
  cert: string
  key: string
  username: string
  password: string
}

const scram = ['SCRAM-SHA-256', 'SCRAM-SHA-512']

/** Settings of a listener with TLS and SASL. */
function secureListener(folder: string, { cert, key, username, password }: Credentials): string[] {
  const keystore = join(folder, 'keystore.pem')
  writeFileSync(keystore, key + cert)
  const prefix = 'listener.name.sasl_ssl'
  const modules = 'org.apache.kafka.common.security'
  const jaas = (mechanism: string, module: string) =>
    `${prefix}.${mechanism.toLowerCase()}.sasl.jaas.config=${modules}.${module};`
  return [
    `sasl.enabled.mechanisms=PLAIN,${scram.join(',')}`,
    jaas('PLAIN', `plain.PlainLoginModule required user_${username}="${password}"`),
    ...scram.map((mechanism) => jaas(mechanism, 'scram.ScramLoginModule required')),
    `${prefix}.ssl.keystore.type=PEM`,
    `${prefix}.ssl.keystore.location=${keystore}`,
  ]
}

/** `credentials`: it has another listener with TLS and SASL. */
export async function startKafka(credentials: Credentials | null = null): Promise<Kafka> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-kafka-'))
  const [port, controller, secure] = [await freePort(), await freePort(), await freePort()]
  let proxy = await tcpProxy(port)
  const broker = `127.0.0.1:${proxy.port}`
  const also = credentials === null ? '' : `,SASL_SSL://127.0.0.1:${secure}`
  const file = join(folder, 'server.properties')
  writeFileSync(
    file,
    [
      'process.roles=broker,controller',
      'node.id=1',
      `controller.quorum.voters=1@127.0.0.1:${controller}`,
      `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}${also}`,
      `advertised.listeners=PLAINTEXT://${broker}${also.replace('127.0.0.1', 'localhost')}`,
      'controller.listener.names=CONTROLLER',
      'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL',
      `log.dirs=${join(folder, 'logs')}`,
      'offsets.topic.replication.factor=1',
      'offsets.topic.num.partitions=1',
      'transaction.state.log.replication.factor=1',
      'transaction.state.log.min.isr=1',
      'group.initial.rebalance.delay.ms=0',
      'num.partitions=3',
      ...(credentials === null ? [] : secureListener(folder, credentials)),
    ].join('\n'),
  )
  const bytes = randomBytes(16)
  // An id that begins with a hyphen would be read as an option.
  bytes[0]! &= 0x7f
  const id = bytes.toString('base64url')
  const users =
    credentials === null
      ? []
      : scram.flatMap((mechanism) => {
          const { username, password } = credentials
          return ['--add-scram', `${mechanism}=[name=${username},password=${password}]`]
        })
  const format = java('kafka.tools.StorageTool', 'format', '-t', id, '-c', file, ...users)
  execFileSync('java', format, { stdio: 'ignore' })
  const child = endWithTest(
    spawn('java', java('kafka.Kafka', file), { stdio: ['ignore', 'pipe', 'pipe'] }),
  )
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output = (output + chunk).slice(-4000)
    })
  const ended = once(child, 'exit')
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
  await until(answers, { what: 'a Kafka that answers', limit: startLimit })
  return {
    broker,
    secure: credentials === null ? '' : `localhost:${secure}`,
    disconnect: () => proxy.close(),
    async reconnect() {
      proxy = await tcpProxy(port, 0, proxy.port)
    },
    async close() {
      child.kill('SIGKILL')
      await Promise.all([ended, proxy.close()])
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
