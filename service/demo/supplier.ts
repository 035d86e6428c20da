/** The demo supplier: an HTTP server that answers OpenRTB 2.6 bid requests, with a hidden market. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { answer, type DemoRequest } from './bids.ts'
import { createMarket, type Market } from './market.ts'

interface DemoSupplierOptions {
  /** Default 0: the system picks. */
  port?: number
  /** Default 127.0.0.1. */
  host?: string
  /** Equal seeds give equal markets and equal bids. Default 1. */
  seed?: number
}

export interface DemoSupplier extends Pick<Market, 'win' | 'publishers'> {
  /** Where bid requests are POSTed. */
  url: string
  /** Bid requests, answers with bids, no-bids and refused requests so far. */
  counts: { requests: number; bids: number; noBids: number; refused: number }
  close(): Promise<void>
}

/** A demo request is 3 KB; what is larger than this is not one. */
const maxBody = 1024 * 1024

export async function createDemoSupplier(options: DemoSupplierOptions = {}): Promise<DemoSupplier> {
  const { port = 0, host = '127.0.0.1', seed = 1 } = options
  const market = createMarket(seed)
  const counts = { requests: 0, bids: 0, noBids: 0, refused: 0 }
  const respond = (request: IncomingMessage, response: ServerResponse, body: Buffer) => {
    const text = request.method === 'POST' ? answerTo(request, body, market, seed) : undefined
    if (text === undefined) {
      counts.refused++
      response.writeHead(400, { 'content-length': 0 }).end()
      return
    }
    if (text === null) {
      counts.noBids++
      response.writeHead(204).end()
      return
    }
    counts.bids++
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      'x-openrtb-version': '2.6',
    })
    response.end(text)
  }
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    counts.requests++
    const chunks: Buffer[] = []
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxBody) request.destroy()
      else chunks.push(chunk)
    })
    // A caller that went away needs no answer; without a listener it would end the process.
    request.on('error', () => counts.refused++)
    request.on('end', () => respond(request, response, Buffer.concat(chunks)))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const bound = (server.address() as AddressInfo).port
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/openrtb`,
    counts,
    publishers: market.publishers,
    win: market.win,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** undefined: not a bid request. null: no bid. */
function answerTo(request: IncomingMessage, body: Buffer, market: Market, seed: number) {
  try {
    const gzip = request.headers['content-encoding'] === 'gzip'
    const plain = gzip ? gunzipSync(body, { maxOutputLength: maxBody }) : body
    const value = JSON.parse(plain.toString()) as Partial<DemoRequest> | null
    const imps = Array.isArray(value?.imp) && value.imp.every((imp) => typeof imp?.id === 'string')
    if (typeof value?.id !== 'string' || !imps) return undefined
    return answer(value as DemoRequest, market, seed)
  } catch {
    // Any body that cannot be used is refused here and never causes an exception further up.
    return undefined
  }
}
