/** Two nodes on PostgreSQL and Redis with their suppliers, the platform that reports wins, and a Prometheus. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { LiveSnapshot } from '../../admin/fleet/live-schema.ts'
import { type Authority, authority } from '../../test/support/authority.ts'
import { startPostgres } from '../../test/support/postgres.ts'
import { token } from '../../test/support/process.ts'
import { startRedis } from '../../test/support/redis.ts'
import { echoSupplier, type Node, startNode, yamlOf } from '../../test/support/service-node.ts'
import { newFolder } from '../harness/child.ts'
import { startPrometheus } from './prometheus.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64url')
const preload = new URL('preload.mjs', import.meta.url).href
/** Bytes of the disk of the second node. */
const diskSize = 48 * 1024 * 1024

/** A supplier over TLS that makes no bid, on connections of one request each. */
async function startTlsSupplier(issuer: Authority) {
  const server = createServer(issuer.issue('127.0.0.1'), (request, response) => {
    request.resume().on('end', () => response.writeHead(204, { connection: 'close' }).end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `https://127.0.0.1:${port}/bid`,
    /** Its certificate has expired, or is valid again. */
    expire: (expired: boolean) =>
      server.setSecureContext(issuer.issue('127.0.0.1', expired ? -1 : 1)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A file system of its own at `path`, which can be filled without harm. */
function mountDisk(path: string) {
  mkdirSync(path)
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskSize}`, 'drill', path])
  return { path, [Symbol.dispose]: () => void execFileSync('umount', ['--lazy', path]) }
}

/** Whether this process may mount a file system. */
export const canMount = process.getuid?.() === 0

const pods = ['a', 'b'] as const
export type Pod = (typeof pods)[number]

/** Bids and wins, five of each ten bids, of both nodes. */
class Traffic {
  /** Nodes that get bid requests. */
  readonly pods = new Set<Pod>(pods)
  /** Notices have a price in millionths. */
  wrongPrices = false
  private stopped = false
  private readonly nodes: Readonly<Record<Pod, Node>>
  private readonly running: Promise<unknown>

  constructor(nodes: Readonly<Record<Pod, Node>>) {
    this.nodes = nodes
    this.running = Promise.all(pods.flatMap((pod) => [this.bids(pod), this.emptyBids(pod)]))
  }

  private async bids(pod: Pod): Promise<void> {
    const node = this.nodes[pod]
    for (let n = 0; !this.stopped; n++) {
      await wait(50)
      if (!this.pods.has(pod)) continue
      const price = 1 + (n % 20) / 10
      // A bid or a notice that fails is what some faults are.
      const bid = await node.bid({ id: `${pod}-${n}`, price }).catch(() => null)
      if (bid === null || n % 10 < 5) continue
      const cleared = this.wrongPrices ? bid.price * 1e6 : bid.price
      const notice = { bid_id: bid.id, svc_opd: bid.svcOpd, price: String(cleared) }
      void node.notify(notice).catch(() => null)
    }
  }

  private async emptyBids(pod: Pod): Promise<void> {
    const { proxyPort } = this.nodes[pod].bidweir
    const body = JSON.stringify({ id: 'r', imp: [{ id: '1', banner: { w: 300, h: 250 } }] })
    const headers = { 'content-type': 'application/json' }
    while (!this.stopped) {
      await wait(200)
      if (!this.pods.has(pod)) continue
      const url = `http://127.0.0.1:${proxyPort}/bid/tls`
      await fetch(url, { method: 'POST', headers, body }).catch(() => null)
    }
  }

  async [Symbol.asyncDispose]() {
    this.stopped = true
    await this.running
  }
}

/** Logs in again before the token, which is valid for five minutes, expires. */
class ConsoleReader {
  private readonly node: Node
  private access: Promise<string> | null = null
  private loggedInAt = 0

  constructor(node: Node) {
    this.node = node
  }

  /** The sentences about nodes and suppliers that the console shows. */
  async sentences(): Promise<string[]> {
    if (performance.now() - this.loggedInAt > 120_000) {
      this.access = token(this.node.bidweir)
      this.loggedInAt = performance.now()
    }
    const answer = await fetch(`${this.node.admin}/api/svc/live/`, {
      headers: { authorization: `Bearer ${await this.access}` },
    })
    if (answer.status !== 200) return []
    const { nodes, integrations } = (await answer.json()) as LiveSnapshot
    return [
      ...nodes.flatMap(({ problems }) => problems.map(({ text }) => text)),
      ...integrations.flatMap(({ health }) => health.reasons.map(({ text }) => text)),
    ]
  }
}

/** `interval`: seconds between two scrapes. */
export async function startWorld(interval: number) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(newFolder())
  const issuer = authority('Drill')!
  const tls = stack.use(await startTlsSupplier(issuer))
  const [supplier, postgres, redis] = await Promise.all([
    echoSupplier(),
    startPostgres(),
    startRedis(),
  ])
  stack.defer(async () => {
    await Promise.all([supplier.close(), postgres.close(), redis.stop()])
  })
  const disk = stack.use(mountDisk(join(folder.path, 'disk')))
  const authorities = join(folder.path, 'ca.pem')
  writeFileSync(authorities, issuer.cert)

  const optionsOf = (pod: Pod, key: number) => {
    const podFolder = join(folder.path, pod)
    mkdirSync(podFolder, { recursive: true })
    const stateDir = pod === 'b' ? disk.path : join(podFolder, 'state')
    return {
      endpoint: supplier.url,
      auth: 'context' as const,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0.1}'],
      ...(pod === 'a' ? { workers: 2, freshConnections: true } : {}),
      ...{ folder: podFolder, preload },
      more: `stateDir: ${JSON.stringify(stateDir)}
store: {database: "${postgres.url}", redis: "${redis.url}"}
opd: {attributionWindow: 10s, keys: [{id: 1, secret: ${keyOf(key)}}]}`,
    }
  }
  /** The configuration with the supplier over TLS, which has an endpoint of its own. */
  const configOf = (pod: Pod, key: number) =>
    `${yamlOf(optionsOf(pod, key))}  - {id: tls, endpoints: ["${tls.url}"], tls: {ca: {file: ${JSON.stringify(authorities)}}}}\n`
  const configure = (pod: Pod, key: number) =>
    writeFileSync(join(folder.path, pod, 'bidweir.yaml'), configOf(pod, key))
  async function start(pod: Pod): Promise<Node> {
    const node = await startNode(optionsOf(pod, 1))
    stack.defer(async () => {
      await node.stop()
    })
    configure(pod, 1)
    node.bidweir.child.kill('SIGHUP')
    return node
  }
  // One after the other: the first one makes the user.
  const nodes = { a: await start('a'), b: await start('b') }
  const database = new pg.Client({ connectionString: postgres.url })
  await database.connect()
  stack.defer(() => database.end())
  const ports = { a: nodes.a.bidweir.adminPort, b: nodes.b.bidweir.adminPort }
  const prometheus = stack.use(await startPrometheus(interval, ports))
  const traffic = stack.use(new Traffic(nodes))
  const reader = new ConsoleReader(nodes.a)
  const held = stack.move()
  return {
    ...{ nodes, redis, tls, traffic, prometheus, database, diskPath: disk.path },
    /** The context key of a node; its configuration is reloaded. */
    setKey(pod: Pod, key: number) {
      configure(pod, key)
      nodes[pod].bidweir.child.kill('SIGHUP')
    },
    folderOf: (pod: Pod) => join(folder.path, pod),
    sentences: () => reader.sentences(),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

export type World = Awaited<ReturnType<typeof startWorld>>
