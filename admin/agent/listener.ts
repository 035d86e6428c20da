/**
 * The agent listener (CONTRACT 15): gRPC calls of an exchange that asks for prices (IAB Tech Lab, Agentic RTB Framework
 * 1.0). A late or refused answer is worse than an empty one: a call that cannot be answered in time gets no mutation, at
 * once. Probes over HTTP/1.1 come to the same port: `/heartbeat` says that the process runs, `/healthcheck` that it is
 * ready.
 */

import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { writeAgentAnswer } from '../../opd/agent/agent.ts'
import { type AgentCall, agentCallReader, type UnreadableCall } from '../../opd/agent/call.ts'
import { atMost } from '../../opd/base/at-most.ts'
import type { LoopTurn } from '../../opd/base/loop-turn.ts'
import type { AgentConfig } from '../config.ts'
import { type GrpcCall, GrpcServer, grpcStatus } from '../grpc/server.ts'
import { HealthService } from './health.ts'
import type { AgentMetrics } from './metrics.ts'
import type { AgentPricer, AgentPrices } from './pricer.ts'

/** The name in the published service definition, and the one that the document 1.0 prints. */
const agentServices = [
  'com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint',
  'com.iabtechlab.bidstream.mutation.v1.RTBExtensionPoint',
] as const

/** Bytes. A larger message ends its call with RESOURCE_EXHAUSTED. */
const maxMessage = 4 * 1024 * 1024
const maxConnections = 256
/** Of one connection. */
const maxStreams = 256
/** Long calls that are being read at once. Each may become megabytes of objects. Beyond it a call gets no mutation. */
const maxReading = 32
/** Milliseconds of the deadline that remain for the way of the answer. */
const wayBack = 0.5
/** Milliseconds between two looks at how late the event loop is. */
const lagInterval = 2
/** Milliseconds between two looks whether the node is ready. */
const readyInterval = 100
/** Milliseconds. */
const lastCalls = 1000
const probeTimeout = 5000

interface AgentDeps {
  config: AgentConfig
  pricer: AgentPricer
  metrics: AgentMetrics
  /** Whether bid traffic can be served. */
  ready: () => boolean
  /** That of the pricer. */
  turn: LoopTurn
}

/** The gRPC listener for exchanges that ask for prices. */
export class AgentListener {
  private readonly deps: AgentDeps
  private readonly grpc: GrpcServer
  private readonly health = new HealthService(agentServices)
  private readonly sockets = new Set<Socket>()
  private readonly server
  private readonly lagTimer
  private readonly readyTimer
  private lastTick = performance.now()
  private draining = false
  /** Calls that are being read in several turns of the event loop. */
  private reading = 0

  constructor(deps: AgentDeps) {
    this.deps = deps
    const answer = (call: GrpcCall) => void this.answer(call)
    this.grpc = new GrpcServer({
      methods: {
        ...Object.fromEntries(agentServices.map((name) => [`/${name}/GetMutations`, answer])),
        ...this.health.methods,
      },
      statusOf: (path) => this.statusOf(path),
      maxMessage,
      maxStreams,
      maxConnectionAge: deps.config.maxConnectionAge,
      turn: deps.turn,
    })
    const probes = createHttpServer({ requestTimeout: probeTimeout }, (request, response) =>
      response.writeHead(this.statusOf(request.url ?? ''), { connection: 'close' }).end(),
    )
    this.server = serverOf(deps.config, (socket) => {
      socket.on('error', () => socket.destroy())
      readFirst(socket, (isHttp2) => {
        if (isHttp2) this.grpc.accept(socket)
        else probes.emit('connection', socket)
      })
    })
    this.server.on('connection', (socket: Socket) => {
      this.sockets.add(socket)
      socket.once('close', () => this.sockets.delete(socket))
    })
    this.server.maxConnections = maxConnections
    this.lagTimer = setInterval(() => {
      this.lastTick = performance.now()
    }, lagInterval).unref()
    this.readyTimer = setInterval(() => this.showReadiness(), readyInterval).unref()
  }

  async listen(): Promise<AddressInfo> {
    const { listen } = this.deps.config
    const port = Number(listen.slice(listen.lastIndexOf(':') + 1))
    const host = listen.slice(0, listen.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1')
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject)
      this.server.listen({ port, host }, resolve)
    })
    this.showReadiness()
    return this.server.address() as AddressInfo
  }

  /** Connections end with GOAWAY, and calls in flight are answered. Other nodes take over. */
  drain(): void {
    this.draining = true
    this.showReadiness()
    this.health.end()
    this.grpc.drain()
  }

  async close(): Promise<void> {
    if (!this.draining) this.drain()
    clearInterval(this.lagTimer)
    clearInterval(this.readyTimer)
    await atMost(lastCalls, new Promise<void>((resolve) => this.server.close(() => resolve())))
    this.grpc.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private get isReady(): boolean {
    return !this.draining && this.deps.ready()
  }

  /** `grpc.health.v1.Health` tells the clients that watch of each change. */
  showReadiness(): void {
    this.health.show(this.isReady)
  }

  /** The status of a probe. */
  private statusOf(path: string): number {
    if (path === '/heartbeat') return 200
    if (path === '/healthcheck') return this.isReady ? 200 : 503
    return 404
  }

  /** Milliseconds by which the event loop is late: calls wait in the kernel meanwhile. */
  private get lag(): number {
    return Math.max(0, performance.now() - this.lastTick - lagInterval)
  }

  private async answer(call: GrpcCall): Promise<void> {
    const { metrics, turn } = this.deps
    const reader = agentCallReader(call.message)
    let step = reader.next()
    if (!step.done) {
      if (this.reading >= maxReading) {
        metrics.refused('', 'overload')
        return call.reply(writeAgentAnswer('', [], null))
      }
      this.reading++
      for (; !(step.done || call.hasEnded); step = reader.next()) await turn.next()
      this.reading--
      if (!step.done) return
    }
    const answer = this.answerTo(step.value, call)
    // Without a promise where none is needed: the answer is then written with the others of its connection.
    const bytes = answer instanceof Promise ? await answer : answer
    if (bytes === null) call.fail(grpcStatus.invalidArgument, 'not an RTBRequest')
    else call.reply(bytes)
    metrics.answered(performance.now() - call.began)
  }

  /** null: the bytes are no RTBRequest. */
  private answerTo(
    read: AgentCall | UnreadableCall,
    call: GrpcCall,
  ): Buffer | null | Promise<Buffer> {
    const { metrics, pricer } = this.deps
    if (typeof read === 'string') {
      metrics.refused('', read)
      return read === 'malformed' ? null : writeAgentAnswer('', [], null)
    }
    const { id } = read
    const failed = () => {
      // The engine logged and counted the fault. The bids keep their prices.
      metrics.refused('', 'internal')
      return writeAgentAnswer(id, [], null)
    }
    const written = ({ mutations, modelVersion }: AgentPrices) =>
      writeAgentAnswer(id, mutations, modelVersion)
    try {
      const prices = pricer.price(read, call.began + this.timeOf(read, call), this.lag)
      return prices instanceof Promise ? prices.then(written).catch(failed) : written(prices)
    } catch {
      return failed()
    }
  }

  /** Milliseconds for this call: of the configuration, of the exchange's tmax, and of the caller's deadline. */
  private timeOf({ tmax }: AgentCall, { timeout }: GrpcCall): number {
    const ofExchange = tmax > 0 ? tmax : Number.POSITIVE_INFINITY
    return Math.min(this.deps.config.timeout, ofExchange, timeout) - wayBack
  }
}

/**
 * Whether the first bytes of a connection are HTTP/2's preface ("PRI * HTTP/2.0"); they stay to be read. A connection that
 * sends none, and one of HTTP/1.1, which serves probes, ends after `probeTimeout`.
 */
function readFirst(socket: Socket, then: (isHttp2: boolean) => void): void {
  const limit = setTimeout(() => socket.destroy(), probeTimeout)
  socket.once('close', () => clearTimeout(limit))
  socket.once('readable', () => {
    const first: Buffer | null = socket.read()
    if (first === null) return
    socket.unshift(first)
    const isHttp2 = first[0] === 0x50
    if (isHttp2) clearTimeout(limit)
    then(isHttp2)
  })
}

function serverOf({ tls }: AgentConfig, onSocket: (socket: Socket) => void) {
  if (tls === undefined) return createNetServer({ noDelay: true }, onSocket)
  const { cert, key, clientCa } = tls
  return createTlsServer(
    {
      ...{ cert, key, noDelay: true, handshakeTimeout: probeTimeout },
      ALPNProtocols: ['h2', 'http/1.1'],
      ...(clientCa !== undefined && { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
    },
    onSocket,
  )
}
