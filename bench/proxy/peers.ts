/** The proxies that are measured side by side. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, startProgram, stop } from '../harness/child.ts'
import { firstLine } from '../harness/machine.ts'
import { tree } from '../harness/process.ts'
import { startService, supplier } from '../harness/service.ts'
import { bidRequests } from '../harness/traffic.ts'
import { passThrough, rewriting } from './nginx.ts'

interface Started {
  port: number
  pid: number
  stop(): Promise<void>
}
interface Peer {
  name: string
  /** What it does with responses that hold a macro. */
  job: 'passes' | 'rewrites'
  /** Compiles while it runs, so it needs a longer warm-up. */
  compiles: boolean
  /** Why it cannot be measured on this machine. */
  missing?: () => string | null
  start(origin: number): Promise<Started>
}
export interface Running {
  name: string
  job: Peer['job']
  compiles: boolean
  port: number
  /** The process and its children. */
  pids(): number[]
  stop(): Promise<void>
}

const luaFolder = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules'].find((folder) =>
  existsSync(join(folder, 'ngx_http_lua_module.so')),
)
const absent = (program: string) => () =>
  firstLine(program, '-v') === null ? `${program} not found` : null

/** Suppliers of bidweir's configuration: `bench`, and as many as the widest row needs. */
export const supplierIds = ['bench', ...Array.from({ length: 199 }, (_, at) => `s${at + 1}`)]

async function bidweir(origin: number): Promise<Started> {
  const endpoint = `http://127.0.0.1:${origin}/openrtb`
  const suppliers = supplierIds.map((id) => supplier(id, endpoint))
  const service = await startService({ suppliers })
  return { port: service.proxy, pid: service.pid, stop: service.stop }
}

/** A program of somebody else; `command` may write files into `dir`. */
const program =
  (command: (dir: string, port: number, origin: number) => string[]) =>
  async (origin: number): Promise<Started> => {
    const dir = mkdtempSync(join(tmpdir(), 'bidweir-peer-'))
    const port = await freePort()
    const child = await startProgram(command(dir, port, origin), dir, port)
    return {
      ...{ port, pid: child.pid! },
      async stop() {
        await stop(child)
        rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
      },
    }
  }
const nginx = (config: (dir: string, port: number, origin: number) => string) =>
  program((dir, port, origin) => {
    writeFileSync(join(dir, 'nginx.conf'), config(dir, port, origin))
    return ['nginx', '-p', dir, '-c', join(dir, 'nginx.conf')]
  })
const haproxy = program((dir, port, origin) => {
  const config = `global\n  nbthread 1\n  maxconn 9000\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n  option forwardfor\n  http-reuse always\nlisten bids\n  bind 127.0.0.1:${port} backlog 8192\n  server supplier 127.0.0.1:${origin} pool-max-conn 8192\n`
  writeFileSync(join(dir, 'haproxy.cfg'), config)
  return ['haproxy', '-db', '-f', join(dir, 'haproxy.cfg')]
})
const node = (kind: string, name: string, job: Peer['job']): Peer => ({
  ...{ name, job, compiles: true },
  start: program((_dir, port, origin) => [
    ...[process.execPath, join(import.meta.dirname, 'node-peer.ts'), kind],
    ...[String(port), `http://127.0.0.1:${origin}`],
  ]),
})

const peers: readonly Peer[] = [
  { name: 'bidweir', job: 'rewrites', compiles: true, start: bidweir },
  {
    ...{ name: 'nginx', job: 'passes', compiles: false },
    ...{ missing: absent('nginx'), start: nginx(passThrough) },
  },
  {
    ...{ name: 'nginx + Lua', job: 'rewrites', compiles: true },
    missing: () => absent('nginx')() ?? (luaFolder ? null : 'the Lua module of nginx not found'),
    start: nginx((...at) => rewriting(...at, luaFolder!)),
  },
  {
    ...{ name: 'HAProxy', job: 'passes', compiles: false },
    ...{ missing: absent('haproxy'), start: haproxy },
  },
  node('http-proxy', 'http-proxy', 'passes'),
  node('http-proxy-json', 'http-proxy + JSON', 'rewrites'),
  node('fastify', '@fastify/http-proxy', 'passes'),
]

interface Answered {
  seatbid: { bid: { price: number; nurl: string; adm: string }[] }[]
}

/** Whether it does the job that its row says; null, or what is wrong. */
async function fault(job: Peer['job'], port: number): Promise<string | null> {
  const ask = (kind: string) =>
    fetch(`http://127.0.0.1:${port}/bid/bench?kind=${kind}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: new Uint8Array(bidRequests[0]!),
    })
  const none = await ask('no-bid')
  if (none.status !== 204) return `a no-bid came as ${none.status}`
  for (const kind of ['bid', 'vast', 'bids-200']) {
    const response = await ask(kind)
    if (response.status !== 200) return `${kind} came as ${response.status}`
    const text = await response.text()
    const bids = (JSON.parse(text) as Answered).seatbid.flatMap((seat) => seat.bid)
    const rewritten = bids.every(({ price }) => price <= 2.4731) && !text.includes('${SVC_OPD_')
    if (job === 'rewrites' && !rewritten) return `${kind} came without OPD`
    if (job === 'passes' && !text.includes('"price":2.4731')) return `${kind} came changed`
  }
  return null
}

/** Starts those that are wanted (none named: all) and checks them. */
export async function startPeers(
  wanted: readonly string[],
  origin: number,
  missing: (what: string) => void,
): Promise<Running[]> {
  const running: Running[] = []
  for (const { start, missing: absence, ...peer } of peers) {
    if (wanted.length > 0 && !wanted.includes(peer.name)) continue
    let why = absence?.() ?? null
    if (why === null)
      try {
        const { port, pid, stop: end } = await start(origin)
        why = await fault(peer.job, port)
        if (why === null) running.push({ ...peer, port, pids: () => tree(pid), stop: end })
        else await end()
      } catch (error) {
        why = (error as Error).message.trim().split('\n')[0]!
      }
    if (why !== null) missing(`${peer.name}: ${why}`)
  }
  return running
}
