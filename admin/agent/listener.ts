/**
 * The agent listener (CONTRACT 15): gRPC calls of an exchange that asks for prices (IAB Tech Lab, Agentic RTB Framework
 * 1.0). A late or refused answer is worse than an empty one: a call that cannot be answered in time gets no mutation, at
 * once. Probes over HTTP/1.1 come to the same port: `/heartbeat` says that the process lives, `/healthcheck` that it is
 * ready.
 */

import {
  createServer as createHttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Socket } from 'node:net'
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { HealthImplementation } from 'grpc-health-check'
import { writeAgentAnswer } from '../../opd/agent/agent.ts'
import { type AgentCall, readAgentCall } from '../../opd/agent/call.ts'
import { atMost } from '../../opd/base/at-most.ts'
import type { AgentConfig } from '../config.ts'
import type { AgentMetrics } from './metrics.ts'
import type { AgentPricer } from './pricer.ts'

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
/** Milliseconds of the deadline that remain for the way of the answer. */
const wayBack = 0.5
/** Milliseconds between two looks at how late the event loop is. */
const lagInterval = 2
/** Milliseconds between two looks whether the node is ready. */
const readyInterval = 100
/** Milliseconds. */
const lastCalls = 1000
const probeTimeout = 5000

const asBytes = (bytes: Buffer) => bytes
const serviceOf = (name: string): ServiceDefinition => ({
  GetMutations: {
    path: `/${name}/GetMutations`,
    requestStream: false,
    responseStream: false,
    requestSerialize: asBytes,
    requestDeserialize: asBytes,
    responseSerialize: asBytes,
    responseDeserialize: asBytes,
  },
})

interface AgentDeps {
  config: AgentConfig
  pricer: AgentPricer
  metrics: AgentMetrics
  /** Whether bid traffic can be served. */
  ready: () => boolean
}

type UnaryCall = ServerUnaryCall<Buffer, Buffer>

export class AgentListener {
  private readonly deps: AgentDeps
  private readonly grpc: Server
  private readonly health = new HealthImplementation({ '': 'NOT_SERVING' })
  private readonly sockets = new Set<Socket>()
  private readonly server
  private readonly injector
  private readonly lagTimer
  private readonly readyTimer
  private lastTick = performance.now()
  private shown: 'SERVING' | 'NOT_SERVING' = 'NOT_SERVING'
  private draining = false

  constructor(deps: AgentDeps) {
    this.deps = deps
    this.grpc = new Server({
      'grpc.max_receive_message_length': maxMessage,
      'grpc.max_concurrent_streams': maxStreams,
      'grpc.max_connection_age_ms': deps.config.maxConnectionAge,
    })
    for (const name of agentServices)
      this.grpc.addService(serviceOf(name), {
        GetMutations: (call: UnaryCall, reply: sendUnaryData<Buffer>) =>
          void this.answer(call, reply),
      })
    this.health.addToServer(this.grpc)
    this.injector = this.grpc.createConnectionInjector(credentialsOf(deps.config))
    const probes = createHttpServer({ requestTimeout: probeTimeout }, (request, response) =>
      this.probe(request, response),
    )
    const isTls = deps.config.tls !== undefined
    this.server = createNetServer({ noDelay: true }, (socket) => {
      this.sockets.add(socket)
      socket.once('close', () => this.sockets.delete(socket))
      socket.on('error', () => socket.destroy())
      if (isTls) this.injector.injectConnection(socket)
      else
        readFirst(socket, (isHttp2) => {
          if (isHttp2) this.injector.injectConnection(socket)
          else probes.emit('connection', socket)
        })
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

  /** Connections end with GOAWAY, and calls in flight have `lastCalls` to finish. Other nodes take over. */
  drain(): void {
    this.draining = true
    this.showReadiness()
    this.injector.drain(lastCalls)
  }

  async close(): Promise<void> {
    this.draining = true
    clearInterval(this.lagTimer)
    clearInterval(this.readyTimer)
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()))
    const shutDown = new Promise<void>((resolve) => this.grpc.tryShutdown(() => resolve()))
    await atMost(1000, Promise.all([closed, shutDown]))
    this.grpc.forceShutdown()
    for (const socket of this.sockets) socket.destroy()
  }

  private get isReady(): boolean {
    return !this.draining && this.deps.ready()
  }

  /** `grpc.health.v1.Health` tells the clients that watch of each change. */
  showReadiness(): void {
    const state = this.isReady ? 'SERVING' : 'NOT_SERVING'
    if (state === this.shown) return
    this.shown = state
    this.health.setStatus('', state)
    for (const name of agentServices) this.health.setStatus(name, state)
  }

  private probe(request: IncomingMessage, response: ServerResponse): void {
    const known: Record<string, number> = {
      '/heartbeat': 200,
      '/healthcheck': this.isReady ? 200 : 503,
    }
    response.writeHead(known[request.url ?? ''] ?? 404, { connection: 'close' }).end()
  }

  /** Milliseconds by which the event loop is late: calls wait in the kernel meanwhile. */
  private get lag(): number {
    return Math.max(0, performance.now() - this.lastTick - lagInterval)
  }

  private async answer(call: UnaryCall, reply: sendUnaryData<Buffer>): Promise<void> {
    const { metrics } = this.deps
    const began = performance.now()
    const bytes = await this.answerTo(call, began)
    if (bytes === null) reply({ code: status.INVALID_ARGUMENT, details: 'not an RTBRequest' })
    else reply(null, bytes)
    metrics.answered(performance.now() - began)
  }

  /** null: the bytes are no RTBRequest. */
  private async answerTo(call: UnaryCall, began: number): Promise<Buffer | null> {
    const { metrics } = this.deps
    let id = ''
    try {
      const read = readAgentCall(call.request)
      if (typeof read === 'string') {
        metrics.refused('', read)
        return read === 'malformed' ? null : writeAgentAnswer('', [], null)
      }
      id = read.id
      const deadline = began + this.timeOf(read, call)
      const { mutations, modelVersion } = await this.deps.pricer.price(read, deadline, this.lag)
      return writeAgentAnswer(id, mutations, modelVersion)
    } catch {
      // The engine logged and counted the fault. The bids keep their prices.
      metrics.refused('', 'internal')
      return writeAgentAnswer(id, [], null)
    }
  }

  /** Milliseconds for this call: of the configuration, of the exchange's tmax, and of the caller's deadline. */
  private timeOf({ tmax }: AgentCall, call: UnaryCall): number {
    const deadline = call.getDeadline()
    const left = (deadline instanceof Date ? deadline.getTime() : deadline) - Date.now()
    return (
      Math.min(this.deps.config.timeout, tmax > 0 ? tmax : Number.POSITIVE_INFINITY, left) - wayBack
    )
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

function credentialsOf({ tls }: AgentConfig): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure()
  const { cert, key, clientCa } = tls
  return ServerCredentials.createSsl(
    clientCa === undefined ? null : Buffer.from(clientCa),
    [{ cert_chain: Buffer.from(cert), private_key: Buffer.from(key) }],
    clientCa !== undefined,
  )
}
