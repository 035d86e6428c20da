/** The proxies that are compared. */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Program, startHaproxy, startProgram } from '../harness/child.ts'
import { firstLine } from '../harness/machine.ts'
import { tree } from '../harness/process.ts'
import { startService, supplier } from '../harness/service.ts'
import { bidRequests } from '../harness/traffic.ts'
import { passThroughTo, rewriting } from './nginx.ts'

type Start = (origin: number) => Promise<Program>

interface Peer {
  name: string
  /** What it does with a response that contains macros. */
  job: 'passes' | 'rewrites'
  /** Compiles while it runs, so it needs a longer warm-up. */
  compiles: boolean
  /** Why it cannot be measured on this machine. */
  missing?: string | false
  start: Start
}
export type Running = Omit<Peer, 'missing' | 'start'> & {
  port: number
  /** The process and its children. */
  pids(): number[]
}

const luaFolder = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules'].find((folder) =>
  existsSync(join(folder, 'ngx_http_lua_module.so')),
)
const absent = (program: string) =>
  firstLine(program, '-v') === null && (`${program} not found` as const)

/** Suppliers of bidweir's configuration: `bench`, and as many as the widest row needs. */
export const supplierIds = ['bench', ...Array.from({ length: 2999 }, (_, nth) => `s${nth + 1}`)]

async function bidweir(origin: number): Promise<Program> {
  const endpoint = `http://127.0.0.1:${origin}/openrtb`
  const service = await startService({ suppliers: supplierIds.map((id) => supplier(id, endpoint)) })
  return Object.assign(service, { port: service.proxy })
}

const nginx =
  (config: (dir: string, port: number, origin: number) => string): Start =>
  (origin) =>
    startProgram((dir, port) => {
      writeFileSync(join(dir, 'nginx.conf'), config(dir, port, origin))
      return ['nginx', '-p', dir, '-c', join(dir, 'nginx.conf')]
    })

const haproxyConfig = (port: number, origin: number) => `global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option forwardfor
  http-reuse always
frontend bids
  bind 127.0.0.1:${port} backlog 8192
  use_backend %[path,field(3,/)]
${supplierIds.map((id) => `backend ${id}\n  server ${id} 127.0.0.1:${origin} pool-max-conn 64`).join('\n')}
`

const node = (kind: string, name: string, job: Peer['job']): Peer => ({
  ...{ name, job, compiles: true },
  start: (origin) =>
    startProgram((_dir, port) => [
      ...[process.execPath, join(import.meta.dirname, 'node-peer.ts'), kind],
      ...[String(port), `http://127.0.0.1:${origin}`],
    ]),
})

const peers: readonly Peer[] = [
  { name: 'bidweir', job: 'rewrites', compiles: true, start: bidweir },
  {
    ...{ name: 'nginx', job: 'passes', compiles: false, missing: absent('nginx') },
    start: nginx(passThroughTo(supplierIds)),
  },
  {
    ...{ name: 'nginx + Lua', job: 'rewrites', compiles: true },
    missing: absent('nginx') || (luaFolder === undefined && 'the Lua module of nginx not found'),
    start: nginx((...ports) => rewriting(...ports, luaFolder!)),
  },
  {
    ...{ name: 'HAProxy', job: 'passes', compiles: false, missing: absent('haproxy') },
    start: (origin) => startHaproxy((port) => haproxyConfig(port, origin)),
  },
  node('http-proxy', 'http-proxy', 'passes'),
  node('http-proxy-json', 'http-proxy + JSON', 'rewrites'),
  node('fastify', '@fastify/http-proxy', 'passes'),
]

interface BidResponse {
  seatbid: { bid: { price: number }[] }[]
}

/** Throws if a proxy does not do the job that its row names. */
async function check(job: Peer['job'], port: number): Promise<void> {
  const ask = (kind: string) =>
    fetch(`http://127.0.0.1:${port}/bid/bench?kind=${kind}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: new Uint8Array(bidRequests[0]!),
    })
  const none = await ask('no-bid')
  if (none.status !== 204) throw new Error(`a no-bid came as ${none.status}`)
  for (const kind of ['bid', 'vast', 'bids-200']) {
    const response = await ask(kind)
    if (response.status !== 200) throw new Error(`${kind} came as ${response.status}`)
    const text = await response.text()
    const bids = (JSON.parse(text) as BidResponse).seatbid.flatMap((seat) => seat.bid)
    const rewritten = bids.every(({ price }) => price <= 2.4731) && !text.includes('${SVC_OPD_')
    if (job === 'rewrites' && !rewritten) throw new Error(`${kind} came without OPD`)
    if (job === 'passes' && !text.includes('"price":2.4731'))
      throw new Error(`${kind} came changed`)
  }
}

/** Starts and checks the wanted proxies (none named: all). They run until `stack` is disposed of. */
export async function startPeers(
  wanted: readonly string[],
  origin: number,
  stack: AsyncDisposableStack,
  missing: (what: string) => void,
): Promise<Running[]> {
  const running: Running[] = []
  for (const { start, missing: absence = false, ...peer } of peers) {
    if (wanted.length > 0 && !wanted.includes(peer.name)) continue
    try {
      if (absence !== false) throw new Error(absence)
      const { port, pid } = stack.use(await start(origin))
      await check(peer.job, port)
      running.push({ ...peer, port, pids: () => tree(pid) })
    } catch (error) {
      missing(`${peer.name}: ${(error as Error).message.trim().split('\n')[0]}`)
    }
  }
  return running
}
