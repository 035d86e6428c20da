/**
 * A module in a process of its own: CPU microseconds of the exchange of a no-bid, from its head to the account. Sockets, whose
 * cost varies by more than what is looked for, are replaced by calls.
 */
import type { SupplierResponses } from '../../opd/types.ts'
import type * as ConfigModule from '../../proxy/config.ts'
import type * as ExchangeModule from '../../proxy/exchange/exchange.ts'
import type * as LongModule from '../../proxy/exchange/long-responses.ts'
import type * as DecoderModule from '../../proxy/exchange/request-decoder.ts'
import type * as BatchModule from '../../proxy/exchange/response-batch.ts'
import type * as RefusedModule from '../../proxy/refused-requests.ts'
import type * as SuppliersModule from '../../proxy/suppliers.ts'
import type { Inbound, Reply, ResponseHead, ResponseSink } from '../../proxy/types.ts'
import { cpuOf } from '../harness/process.ts'
import { inTurns } from '../harness/statistics.ts'

/** A checkout and the keys of a supplier besides its id. */
export interface ExchangeJob {
  subjects: readonly { root: string; route: object }[]
  rounds: number
  /** Of a round. */
  requests: number
}

const noBid: ResponseHead = {
  ...{ status: 204, message: 'No Content', replies: [] },
  fields: ['Connection', 'keep-alive', 'Date', 'Tue, 24 Nov 2026 00:00:00 GMT'],
}
const reply: Reply = {
  open: true,
  sendWhole() {},
  start() {},
  write: () => true,
  drained() {},
  end() {},
  destroy() {},
}
const body = JSON.stringify({
  ...{ id: '8f2b1c70-5a1d-4a4a-9d5e-1f2a3b4c5d6e', tmax: 120 },
  imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }],
  site: { domain: 'news.example', publisher: { id: 'pub-1' } },
})
const fields = ['Host', 'proxy', 'Content-Type', 'application/json', 'Content-Length', '200']

/** Returns a function that makes one exchange. */
async function exchangeOf({ root, route }: ExchangeJob['subjects'][number]): Promise<() => void> {
  const load = (name: string) => import(`${root}/proxy/${name}.ts`)
  const { routeSchema } = (await load('config')) as typeof ConfigModule
  const { Exchange } = (await load('exchange/exchange')) as typeof ExchangeModule
  const { RequestDecoder } = (await load('exchange/request-decoder')) as typeof DecoderModule
  const { LongResponses } = (await load('exchange/long-responses')) as typeof LongModule
  const { ResponseBatch } = (await load('exchange/response-batch')) as typeof BatchModule
  const { RefusedRequests } = (await load('refused-requests')) as typeof RefusedModule
  const { Suppliers } = (await load('suppliers')) as typeof SuppliersModule
  const lookup = () => {
    throw new Error('no name is looked up')
  }
  const resolver = { watch() {}, unwatch() {}, failed() {}, lookup, close() {} }
  const log = { info() {}, warn() {}, error() {} }
  const suppliers = new Suppliers({
    upstream: { resolver, lane: 'fast', zone: 'a', checksHealth: false, onHealth() {} } as never,
    ...{ leased: false, maxInFlight: 1000, log: log as never },
    engine: { responsesOf: () => ({ reads: true }) as SupplierResponses },
  })
  suppliers.set({ ...routeSchema.parse(route), id: 'bench' })
  const supplier = suppliers.all.get('bench')!
  let answer: ResponseSink | null = null
  const connection = {
    ...{ connectedAt: 0, reusableUntil: 0, usable: true },
    dispatch(_head: object, _body: unknown, sink: ResponseSink) {
      answer = sink
    },
    abort() {},
    destroy() {},
  }
  for (const { pool } of supplier.everyEndpoint()) pool.acquire = () => connection
  const limits = {
    maxInFlight: 1000,
    maxHeldBytes: 1e9,
    maxRequestBytes: 1e6,
    maxRewriteBytes: 1e6,
  }
  const budget = { inFlight: 0, bytes: 0, kept: 0 }
  const context: ExchangeModule.ExchangeContext = {
    ...{
      budget,
      limits,
      gunzip: null,
      gzip: null as never,
      tracer: null,
      accessLog: null,
      via: null,
    },
    lag: { overloaded: false } as never,
    decoder: new RequestDecoder(budget, () => limits, null),
    batch: new ResponseBatch(),
    long: new LongResponses(),
    refused: new RefusedRequests(),
    recompress: 'same',
    trusted: () => false,
  }
  const head: Inbound['head'] = {
    ...{ fields, query: '', encoding: undefined, contentType: undefined, forwarded: null },
  }
  return () => {
    const arrived = performance.now()
    const exchange = new Exchange(
      {
        head,
        remote: '127.0.0.1',
        secure: false,
        protocol: 'HTTP/1.1',
        identity: null,
        arrived,
        reply,
      },
      supplier,
      context,
    )
    if (exchange.admit() !== null) throw new Error('the request is refused')
    exchange.receiveBody(body)
    exchange.bodyReceived()
    const sink = answer!
    answer = null
    sink.head(noBid, null)
    sink.end(performance.now())
  }
}

process.once('message', async ({ subjects, rounds, requests }: ExchangeJob) => {
  const exchanges: (() => void)[] = []
  for (const subject of subjects) exchanges.push(await exchangeOf(subject))
  const measure = (exchange: () => void) => cpuOf(exchange, requests)
  // Compiles.
  await inTurns(10, exchanges, measure)
  const samples = await inTurns(rounds, exchanges, measure)
  process.send!([...samples.values()], () => process.exit())
})
