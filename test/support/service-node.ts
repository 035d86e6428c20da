/** Whole nodes as processes, a supplier that answers what it is asked to, and what comes back of its bids. */
import { type Bidweir, newFolder, type Running, startBidweir, token } from './process.ts'
import { httpSupplier } from './supplier.ts'
import { until } from './until.ts'

/** A supplier that answers the bids which stand in the request's `ext.bids`, in the currency `ext.cur`. */
export function echoSupplier() {
  return httpSupplier((_request, response, body) => {
    const { id, ext } = JSON.parse(body) as { id: string; ext: { bids: unknown[]; cur?: string } }
    const text = JSON.stringify({
      id,
      cur: ext.cur ?? 'USD',
      seatbid: [{ seat: 's', bid: ext.bids }],
    })
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(text)
  })
}

const nurl =
  'https://t.example/w?svc_opd=${SVC_OPD_CONTEXT}&i=${SVC_OPD_IN_BID_PRICE}&o=${SVC_OPD_OUT_BID_PRICE}&m=${SVC_OPD_MODE}&p=${AUCTION_PRICE}'

export interface NodeOptions {
  /** Lines of YAML of the list `suppliers`, each a mapping without `endpoints`. */
  suppliers: readonly string[]
  endpoint: string
  auth?: 'bearer' | 'context' | 'none'
  /** More top-level lines. */
  more?: string
  /** More of `admin`. */
  admin?: string
  folder?: string
  /** `proxy.workers` and `proxy.listen`. */
  workers?: number
  listen?: string
  /** Each bid request is on a connection of its own. */
  freshConnections?: boolean
  /** A module that is imported before the service. */
  preload?: string
  /** Milliseconds by which its clock is ahead of this machine's. */
  ahead?: number
}

/** Flags of Node.js that set the clock of a process and its threads. */
const clockFlags = (ahead: number) => [
  '--import',
  `data:text/javascript,${encodeURIComponent(`const Real = Date
globalThis.Date = class extends Real {
  constructor(...given) { if (given.length === 0) super(Real.now() + ${ahead}); else super(...given) }
  static now() { return Real.now() + ${ahead} }
}`)}`,
]

interface Asked {
  id: string
  price?: number
  ssp?: string
  auction?: string
  request?: Record<string, unknown>
  cur?: string
  headers?: Record<string, string>
}

export interface Answered {
  id: string
  price: number
  svcOpd: string
  in: string
  out: string
  mode: string
}

export const yamlOf = ({
  suppliers,
  endpoint,
  auth = 'context',
  more = '',
  admin = '',
  workers = 1,
  listen = '127.0.0.1:0',
}: NodeOptions) => `
proxy: {listen: "${listen}"${workers === 1 ? '' : `, workers: ${workers}`}}
admin: {listen: "127.0.0.1:0", impressions: {auth: ${auth}}${admin && `, ${admin}`}}
drain: {grace: 0ms, timeout: 10s}
log: {level: warn}
${more}
suppliers:${suppliers.length === 0 ? ' []' : ''}
${suppliers.map((supplier) => `  - {${supplier}, endpoints: ["${endpoint}"], timeout: 20s}`).join('\n')}
`

export async function startNode(options: NodeOptions) {
  const folder = options.folder ?? newFolder()
  const flags = [
    ...(options.ahead === undefined ? [] : clockFlags(options.ahead)),
    ...(options.preload === undefined ? [] : ['--import', options.preload]),
  ]
  return nodeOf(await startBidweir(yamlOf(options), folder, flags), options)
}

export function nodeOf<Service extends Running>(
  bidweir: Service,
  options: Pick<NodeOptions, 'freshConnections'>,
) {
  const { folder } = bidweir
  const admin = `http://127.0.0.1:${bidweir.adminPort}`
  let access: Promise<string> | null = null

  /** The answer's bids, priced, with what their macros became. */
  async function bids(asked: readonly Asked[]): Promise<Answered[]> {
    const [{ ssp = 'acme', request = {}, cur, auction, id, headers }] = asked as [Asked]
    const body = {
      id: auction ?? `auction of ${id}`,
      imp: [{ id: '1', banner: { w: 300, h: 250 } }],
      site: { domain: 'news.example', publisher: { id: 'pub-1' } },
      ...request,
      ext: {
        cur,
        bids: asked.map(({ id, price = 1 }) => ({ id, impid: '1', price, nurl })),
      },
    }
    const post = () =>
      fetch(`http://127.0.0.1:${bidweir.proxyPort}/bid/${ssp}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...headers,
          ...(options.freshConnections ? { connection: 'close' } : {}),
        },
        body: JSON.stringify(body),
      })
    let answer!: Response
    // A busy machine delays the event loop of a node, which then refuses.
    await until(async () => {
      answer = await post()
      return answer.headers.get('x-bidweir-reason') !== 'overload'
    })
    if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
    const { seatbid } = (await answer.json()) as {
      seatbid: { bid: { id: string; price: number; nurl: string }[] }[]
    }
    return seatbid[0]!.bid.map(({ id, price, nurl }) => {
      const query = new URL(nurl).searchParams
      const value = (name: string) => query.get(name) ?? ''
      return {
        id,
        price,
        svcOpd: value('svc_opd'),
        in: value('i'),
        out: value('o'),
        mode: value('m'),
      }
    })
  }

  /** A notice by its raw query; `headers` may carry a token. */
  async function send(query: string, headers: Record<string, string> = {}, method = 'GET') {
    const answer = await fetch(`${admin}/opd/imp?${query}`, { method, headers })
    const text = await answer.text()
    const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>
    return { http: answer.status, headers: answer.headers, body }
  }

  const login = () => {
    access ??= token(bidweir, 'admin', bidweir.password ?? password(folder))
    return access
  }
  if (bidweir.password !== null) passwords.set(folder, bidweir.password)

  async function api(path: string, init: RequestInit & { headers?: Record<string, string> } = {}) {
    return fetch(`${admin}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${await login()}`, ...init.headers },
    })
  }

  return {
    bidweir,
    admin,
    folder,
    login,
    api,
    bids,
    bid: async (asked: Asked) => (await bids([asked]))[0]!,
    send,
    notify: (params: Record<string, string | undefined>, headers?: Record<string, string>) =>
      send(
        String(
          new URLSearchParams(
            Object.entries(params).filter(
              (pair): pair is [string, string] => pair[1] !== undefined,
            ),
          ),
        ),
        headers,
      ),
    report: async (path: string) =>
      (await (await api(`/api/svc/reports/${path}`)).json()) as Record<string, unknown>[],
    /** Values of `/metrics` by series, as it spells them. */
    async metrics(): Promise<Map<string, number>> {
      const text = await (await fetch(`${admin}/metrics`)).text()
      return new Map(
        text
          .split('\n')
          .filter((line) => line !== '' && !line.startsWith('#'))
          .map((line) => {
            const space = line.lastIndexOf(' ')
            return [line.slice(0, space), Number(line.slice(space + 1))]
          }),
      )
    },
    stop: (signal?: NodeJS.Signals) => bidweir.stop(signal),
  }
}

const passwords = new Map<string, string>()
const password = (folder: string) => passwords.get(folder) ?? ''

export type Node<Service extends Running = Bidweir> = ReturnType<typeof nodeOf<Service>>

/** Sum of the series of one family whose labels hold all of `labels`. */
export function sumOf(
  metrics: ReadonlyMap<string, number>,
  family: string,
  ...labels: string[]
): number {
  let sum = 0
  for (const [series, value] of metrics)
    if (series.split('{')[0] === family && labels.every((label) => series.includes(label)))
      sum += value
  return sum
}
