/** Who is measured: one row each, all side by side in one run. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { passThrough, rewriting } from './nginx.ts'

interface Subject {
  name: string
  /** What it does with answers that hold a marker. */
  job: 'passes' | 'rewrites'
  /** The program that has to be there, or null where Node is enough. */
  missing(): string | null
  /** Command and arguments; writes what it needs into `dir`. */
  command(dir: string, port: number, origin: number): string[]
}

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '../..')
const luaFolder = ['/usr/lib/nginx/modules', '/usr/lib64/nginx/modules'].find((folder) =>
  existsSync(join(folder, 'ngx_http_lua_module.so')),
)
const absent = (program: string) =>
  spawnSync(program, ['-v']).error === undefined ? null : `${program} not found`
const write = (dir: string, name: string, text: string) => {
  const file = join(dir, name)
  writeFileSync(file, text)
  return file
}

/** Suppliers of the bidweir configuration: `bench` and as many as the widest row wants. */
export const supplierIds = ['bench', ...Array.from({ length: 199 }, (_, at) => `s${at + 1}`)]

function bidweirConfig(dir: string, port: number, origin: number): string {
  const opd = { enabled: true, mode: 'revenue', holdout: 0.02 }
  const suppliers = supplierIds.map((id) => ({
    ...{ id, endpoints: [`http://127.0.0.1:${origin}/openrtb`], timeout: '5s', opd },
  }))
  // YAML is a superset of JSON.
  return JSON.stringify({
    proxy: { listen: `127.0.0.1:${port}` },
    admin: { listen: '127.0.0.1:0', impressions: { auth: 'context' } },
    store: { database: `sqlite:${dir}/bidweir.db` },
    opd: { keys: [{ id: 1, secret: Buffer.alloc(32, 9).toString('base64url') }] },
    drain: { grace: '0s', timeout: '5s' },
    log: { level: 'warn' },
    suppliers,
  })
}

const node = (kind: string, name: string, job: Subject['job']): Subject => ({
  name,
  job,
  missing: () => null,
  command: (_dir, port, origin) => [
    ...[process.execPath, join(here, 'bare.ts'), kind, String(port), `http://127.0.0.1:${origin}`],
  ],
})

/** The program that is measured: of this checkout, or `BIDWEIR_MAIN` (an older checkout, `dist/main.js`). */
const main = process.env['BIDWEIR_MAIN'] ?? join(root, 'main.ts')

export const subjects: readonly Subject[] = [
  {
    name: 'bidweir',
    job: 'rewrites',
    missing: () => null,
    command: (dir, port, origin) => {
      const config = write(dir, 'bidweir.yaml', bidweirConfig(dir, port, origin))
      return [process.execPath, main, 'start', '--config', config]
    },
  },
  {
    name: 'nginx',
    job: 'passes',
    missing: () => absent('nginx'),
    command: (dir, port, origin) => [
      ...['nginx', '-p', dir, '-c', write(dir, 'nginx.conf', passThrough(dir, port, origin))],
    ],
  },
  {
    name: 'nginx + Lua',
    job: 'rewrites',
    missing: () =>
      absent('nginx') ?? (luaFolder === undefined ? 'the Lua module of nginx not found' : null),
    command: (dir, port, origin) => [
      ...['nginx', '-p', dir, '-c'],
      write(dir, 'nginx.conf', rewriting(dir, port, origin, luaFolder!)),
    ],
  },
  {
    name: 'HAProxy',
    job: 'passes',
    missing: () => absent('haproxy'),
    command: (dir, port, origin) => [
      ...['haproxy', '-db', '-f'],
      write(
        dir,
        'haproxy.cfg',
        `global\n  nbthread 1\n  maxconn 9000\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n  option forwardfor\n  http-reuse always\nlisten bids\n  bind 127.0.0.1:${port} backlog 8192\n  server supplier 127.0.0.1:${origin} pool-max-conn 8192\n`,
      ),
    ],
  },
  node('http-proxy', 'http-proxy', 'passes'),
  node('http-proxy-json', 'http-proxy + JSON', 'rewrites'),
  node('fastify', '@fastify/http-proxy', 'passes'),
]

export interface Running {
  subject: Subject
  port: number
  child: ChildProcess
  stop(): Promise<void>
}

/** Starts it and waits until it accepts; rejects with what it said when it ends instead. */
export async function start(
  subject: Subject,
  dir: string,
  port: number,
  origin: number,
): Promise<Running> {
  mkdirSync(dir, { recursive: true })
  const [program, ...args] = subject.command(dir, port, origin)
  const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: dir })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream!.on('data', (chunk) => {
      said = `${said}${chunk}`.slice(-4000)
    })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  for (let tries = 0; !(await accepts(port)); tries++) {
    if (child.exitCode !== null || tries > 100) {
      child.kill('SIGKILL')
      throw new Error(`${subject.name} does not start: ${said}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return {
    subject,
    port,
    child,
    async stop() {
      child.kill('SIGTERM')
      const hard = setTimeout(() => child.kill('SIGKILL'), 6000)
      await ended
      clearTimeout(hard)
    },
  }
}

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
