/** The demo supplier: an HTTP server that answers OpenRTB 2.6 bid requests, with a hidden market. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { mulberry32 } from '../../opd/base/random.ts'
import { createMarket, hash, type Market } from './market.ts'

export interface DemoImp {
  id: string
  bidfloor?: number
  bidfloorcur?: string
  banner?: { w?: number; h?: number }
  video?: { w?: number; h?: number; maxduration?: number }
  native?: { request: string }
  audio?: { maxduration?: number }
  pmp?: { deals?: { id: string; bidfloor?: number; at?: number }[] }
}
interface DemoRequest {
  id: string
  imp: DemoImp[]
  cur?: string[]
  site?: { domain?: string; publisher?: { id?: string } }
  app?: { bundle?: string; publisher?: { id?: string } }
}

/** Of the market and of the bids. */
const seed = 1
const seats = ['seat-aurora', 'seat-boreal', 'seat-cinder']
const host = 'https://win.demo.example'
/** Units of each currency for one USD. */
export const rates: Readonly<Record<string, number>> = { USD: 1, EUR: 0.92 }

/** Query of the notice to the platform: the macro makes a bid eligible for OPD, the others report its prices. */
const notice = (kind: string, bid: string) =>
  `${host}/${kind}?bid_id=${bid}&price=\${AUCTION_PRICE}&svc_opd=\${SVC_OPD_CONTEXT}` +
  '&in=${SVC_OPD_IN_BID_PRICE}&out=${SVC_OPD_OUT_BID_PRICE}&mode=${SVC_OPD_MODE}'

const vast = (bid: string, audio: boolean) =>
  `<VAST version="4.2"><Ad id="${bid}"><InLine><AdSystem version="1.0">Demo</AdSystem><AdTitle>Demo</AdTitle>` +
  `<Impression id="i1"><![CDATA[${notice('imp', bid)}]]></Impression><Creatives><Creative sequence="1"><Linear>` +
  `<Duration>00:00:15</Duration><TrackingEvents>${[
    'start',
    'firstQuartile',
    'midpoint',
    'thirdQuartile',
    'complete',
  ]
    .map((event) => `<Tracking event="${event}"><![CDATA[${host}/t/${event}?b=${bid}]]></Tracking>`)
    .join('')}</TrackingEvents><MediaFiles><MediaFile delivery="progressive" ${
    audio ? 'type="audio/mpeg"' : 'type="video/mp4" width="1280" height="720" bitrate="2400"'
  }><![CDATA[https://cdn.demo.example/${bid}.${audio ? 'mp3' : 'mp4'}]]></MediaFile></MediaFiles>` +
  '</Linear></Creative></Creatives></InLine></Ad></VAST>'

const nativeAd = (bid: string) =>
  JSON.stringify({
    native: {
      ver: '1.2',
      assets: [
        { id: 1, title: { text: 'Ten quiet places — a weekend by train' } },
        { id: 2, img: { url: 'https://cdn.demo.example/n.jpg', w: 1200, h: 627 } },
      ],
      link: { url: 'https://travel.demo.example/offer?a=1&b=2' },
      imptrackers: [notice('imp', bid)],
    },
  })

const html = (bid: string, w: number, h: number) =>
  `<a href="https://shop.demo.example/?c=${bid}" target="_blank"><img src="https://cdn.demo.example/${w}x${h}.png" width="${w}" height="${h}" alt=""></a>` +
  `<img src="${notice('px', bid)}" width="1" height="1" alt=""><script>window.ad={"id":"${bid}"}</script>`

/** mtype and fields for the first format of an impression. */
const formats: readonly ((imp: DemoImp, bid: string) => Record<string, unknown> | null)[] = [
  (imp, bid) => {
    if (imp.banner === undefined) return null
    const { w = 300, h = 250 } = imp.banner
    return { mtype: 1, w, h, adm: html(bid, w, h) }
  },
  (imp, bid) => (imp.video ? { mtype: 2, dur: 15, adm: vast(bid, false) } : null),
  (imp, bid) => (imp.audio ? { mtype: 3, dur: 15, adm: vast(bid, true) } : null),
  (imp, bid) => (imp.native ? { mtype: 4, adm: nativeAd(bid) } : null),
]

/** Integers above 2^53 are texts until they are written here. Slashes are escaped, as PHP and some Java libraries do. */
function asText(value: unknown, escapedSlashes: boolean): string {
  const text = JSON.stringify(value).replace(/"#(\d+)"/g, '$1')
  return escapedSlashes ? text.replaceAll('/', '\\/') : text
}

/** The body of the response, or null for a no-bid. Equal requests get equal responses. */
function bidResponse(request: DemoRequest, market: Market): string | null {
  const sure = request.id.startsWith('curl-')
  const random = mulberry32(hash(request.id, seed))
  if (!sure && random() < 0.3) return null
  const publisher = request.site?.publisher?.id ?? request.app?.publisher?.id ?? ''
  const currency =
    rates[request.cur?.[0] ?? 'USD'] === undefined ? 'USD' : (request.cur?.[0] ?? 'USD')
  const bySeat = new Map<string, Record<string, unknown>[]>()
  for (const imp of request.imp.slice(0, 256))
    for (let bidder = 0; bidder < (sure || random() < 0.6 ? 1 : 2); bidder++) {
      const floor = floorOf(imp, currency)
      const value = market.value(request.id, imp.id, publisher, bidder) * rates[currency]!
      const price = sure ? Math.max(2.4, floor * 4) : value
      if (price < floor) continue
      const id = `${request.id}-${imp.id}-${bidder}`
      const content = formats.map((format) => format(imp, id)).find((found) => found !== null)
      if (content === undefined || content === null) continue
      const deal = imp.pmp?.deals?.[0]
      const seat = seats[(hash(id, seed) % 7) % seats.length]!
      const bids = bySeat.get(seat) ?? []
      bySeat.set(seat, bids)
      bids.push({
        id,
        impid: imp.id,
        price: Number(price.toFixed(sure ? 2 : 4)),
        nurl: notice('win', id),
        lurl: `${host}/loss?b=${id}&r=\${AUCTION_LOSS}`,
        adomain: ['shop.demo.example'],
        crid: `cr-${hash(id, seed) % 997}`,
        cid: '#9007199254740993117',
        ...(deal !== undefined && random() < 0.5 ? { dealid: deal.id } : {}),
        ...content,
        ext: { demo: { line_item: `#92233720368547758${random() < 0.5 ? '07' : '06'}` } },
      })
    }
  if (bySeat.size === 0) return null
  const seatbid = [...bySeat].map(([seat, bid]) => ({ seat, bid }))
  return asText(
    { id: request.id, bidid: `a-${request.id}`, cur: currency, seatbid },
    random() < 0.2,
  )
}

/** The floor in the currency of the response. An unknown currency counts as USD. */
function floorOf(imp: DemoImp, currency: string): number {
  const from = rates[imp.bidfloorcur ?? 'USD'] ?? 1
  return ((imp.bidfloor ?? 0) * rates[currency]!) / from
}

export type DemoSupplier = Awaited<ReturnType<typeof createDemoSupplier>>

/** With this query the bids lack the macro that makes them eligible for OPD. */
const bareQuery = '?macro=none'
const marker = 'svc_opd=${SVC_OPD_CONTEXT}'

/** A demo request is 3 KB; what is larger than this is not one. */
const maxBody = 1024 * 1024

/** `port` 0: the system picks. */
export async function createDemoSupplier(host = '127.0.0.1', port = 0) {
  const market = createMarket(seed)
  const respond = (request: IncomingMessage, response: ServerResponse, body: Buffer) => {
    const found = request.method === 'POST' ? responseTo(request, body, market) : undefined
    const isBare = typeof found === 'string' && request.url?.endsWith(bareQuery)
    const text = isBare ? found.replaceAll(marker, '') : found
    if (text === undefined) return response.writeHead(400, { 'content-length': 0 }).end()
    if (text === null) return response.writeHead(204).end()
    return response
      .writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        'x-openrtb-version': '2.6',
      })
      .end(text)
  }
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    const chunks: Buffer[] = []
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxBody) request.destroy()
      else chunks.push(chunk)
    })
    // A caller that went away needs no response; without a listener it would end the process.
    request.on('error', () => {})
    request.on('end', () => respond(request, response, Buffer.concat(chunks)))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const bound = (server.address() as AddressInfo).port
  return {
    /** Where bid requests are POSTed. */
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/openrtb`,
    publishers: market.publishers,
    win: market.win,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** undefined: not a bid request. null: no bid. */
function responseTo(request: IncomingMessage, body: Buffer, market: Market) {
  try {
    const gzip = request.headers['content-encoding'] === 'gzip'
    const plain = gzip ? gunzipSync(body, { maxOutputLength: maxBody }) : body
    const value = JSON.parse(plain.toString()) as Partial<DemoRequest> | null
    const imps = Array.isArray(value?.imp) && value.imp.every((imp) => typeof imp?.id === 'string')
    if (typeof value?.id !== 'string' || !imps) return undefined
    return bidResponse(value as DemoRequest, market)
  } catch {
    // Any body that cannot be used is refused here and never causes an exception further up.
    return undefined
  }
}
