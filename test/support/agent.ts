/** A gRPC client of the agent listener that encodes by protobuf.js, from the schema that the project ships. */
import { join } from 'node:path'
import {
  type ChannelCredentials,
  Client,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'

const folder = join(import.meta.dirname, '../../opd/agent/proto')
const definition = loadSync('service.proto', {
  includeDirs: [folder],
  keepCase: true,
  enums: String,
  longs: Number,
  arrays: true,
})
loadPackageDefinition(definition)

interface MethodCodec {
  requestSerialize: (value: object) => Buffer
  responseDeserialize: (bytes: Buffer) => AgentAnswer
}
const service = definition[
  'com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint'
] as unknown as Record<string, MethodCodec>
const method = service['GetMutations']!

export interface AgentAnswer {
  id: string
  mutations: { intent: string; op: string; path: string; adjust_bid: { price: number } }[]
  metadata: { api_version: string; model_version: string } | null
}

/** The bytes of an RTBRequest. */
export const encodeCall = (call: object): Buffer => method.requestSerialize(call)

export const decodeAnswer = (bytes: Buffer): AgentAnswer => method.responseDeserialize(bytes)

const published = '/com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint/GetMutations'
export const printed = '/com.iabtechlab.bidstream.mutation.v1.RTBExtensionPoint/GetMutations'

export class AgentClient {
  private readonly client: Client

  constructor(port: number, channel: ChannelCredentials = credentials.createInsecure()) {
    this.client = new Client(`127.0.0.1:${port}`, channel, {
      'grpc.ssl_target_name_override': 'localhost',
      'grpc.enable_retries': 0,
    })
  }

  /** Sends bytes, with a deadline in milliseconds. The bytes of the answer, or the error of the call. */
  exchange(bytes: Buffer, path: string, deadline = 60_000): Promise<Buffer> {
    const same = (value: Buffer) => value
    return new Promise((resolve, reject) => {
      this.client.makeUnaryRequest<Buffer, Buffer>(
        path,
        same,
        same,
        bytes,
        new Metadata(),
        { deadline: Date.now() + deadline },
        (error: ServiceError | null, answer) => (error ? reject(error) : resolve(answer!)),
      )
    })
  }

  /** Sends bytes to GetMutations; its answer, decoded. */
  async send(bytes: Buffer, path = published): Promise<AgentAnswer> {
    return decodeAnswer(await this.exchange(bytes, path))
  }

  call(call: object, path = published): Promise<AgentAnswer> {
    return this.send(encodeCall(call), path)
  }

  close(): void {
    this.client.close()
  }
}

/** A call about one bid of 2.4 with a floor of 1. */
export const callOf = (over: object = {}, bid: object = {}) => ({
  lifecycle: 'LIFECYCLE_DSP_BID_RESPONSE',
  id: 'call-1',
  originator: { type: 'TYPE_DSP', id: 'acme' },
  applicable_intents: ['BID_SHADE'],
  bid_request: {
    id: 'auction-1',
    imp: [{ id: '1', bidfloor: 1, banner: { w: 300, h: 250 } }],
    site: { domain: 'news.example', publisher: { id: 'p1' } },
  },
  bid_response: {
    id: 'auction-1',
    cur: 'USD',
    seatbid: [{ seat: 'seat-1', bid: [{ id: 'bid-1', impid: '1', price: 2.4, ...bid }] }],
  },
  ...over,
})
