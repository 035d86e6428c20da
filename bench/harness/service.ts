/** Starts bidweir as a process, in a folder of its own, with the supplier and the caller of the benchmarks. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Job, Outcome } from './caller.ts'
import { Child, newFolder, stop } from './child.ts'
import { cpu, tree } from './process.ts'
import type { Ports } from './supplier.ts'

/** The program that is measured: of this checkout, or `BIDWEIR_MAIN` (an older checkout, `dist/main.js`). */
const main = process.env['BIDWEIR_MAIN'] ?? fileURLToPath(new URL('../../main.ts', import.meta.url))

type Config = Record<string, unknown>

export interface Service extends AsyncDisposable {
  pid: number
  /** Ports. */
  proxy: number
  admin: number
  /** CPU microseconds so far, all threads. */
  cpu(): number
  /** Writes another configuration, and sends SIGHUP. */
  reload(config: Config): void
  /** The next message of the module that runs inside. */
  probe<T = number>(): Promise<T>
  metrics(): Promise<string>
}

/** The supplier of the benchmarks, a process of its own. */
export async function startOrigin() {
  const child = new Child<never, Ports>(new URL('supplier.ts', import.meta.url))
  const { port, tls } = await child.answer()
  const url = `http://127.0.0.1:${port}/openrtb`
  return {
    pid: child.pid,
    port,
    tls,
    url,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

export type Caller = Child<Job, Outcome>
export const startCaller = (): Caller => new Child(new URL('caller.ts', import.meta.url))

/** An access token of the user `admin`. */
export async function logIn(admin: number, password: string): Promise<string> {
  const form = { client_id: 'public-client', grant_type: 'password', username: 'admin', password }
  const path = '/auth/realms/main/protocol/openid-connect/token'
  const response = await fetch(`http://127.0.0.1:${admin}${path}`, {
    ...{ method: 'POST', body: new URLSearchParams(form) },
  })
  return ((await response.json()) as { access_token: string }).access_token
}

/** A supplier with OPD on. */
export const supplier = (id: string, endpoint: string, more: Config = {}): Config => ({
  ...{ id, endpoints: [endpoint], timeout: '5s', opd: { enabled: true, holdout: 0.02 } },
  ...more,
})

const base: Config = {
  proxy: { listen: '127.0.0.1:0' },
  admin: { listen: '127.0.0.1:0', impressions: { auth: 'context' } },
  opd: { keys: [{ id: 1, secret: randomBytes(32).toString('base64url') }] },
  drain: { grace: '0s', timeout: '5s' },
  log: { level: 'warn' },
}
/** YAML is a superset of JSON. */
const text = (config: Config) => JSON.stringify({ ...base, ...config })

/**
 * `probe`: a module that is imported into the process, and answers messages. `profile`: a folder for CPU profiles. `authority`: a
 * certificate that is trusted. `program`: `main.ts` of another checkout. `nodeOptions`: those of Node.js, by default as `npm start`
 * and the image give them.
 */
export async function startService(
  config: Config,
  {
    probe,
    profile = '',
    authority,
    program = main,
    nodeOptions = ['--no-memory-reducer'],
  }: {
    probe?: URL
    profile?: string
    authority?: string | undefined
    program?: string
    nodeOptions?: readonly string[]
  } = {},
): Promise<Service> {
  const folder = newFolder()
  const file = join(folder.path, 'bidweir.yaml')
  writeFileSync(file, text(config))
  const authorities = join(folder.path, 'authorities.pem')
  if (authority !== undefined) writeFileSync(authorities, authority)
  const flags = [
    ...nodeOptions,
    ...(probe === undefined ? [] : ['--import', probe.href]),
    ...(profile === '' ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]),
  ]
  const child = spawn(process.execPath, [...flags, program, 'start', '--config', file], {
    cwd: folder.path,
    env: { ...process.env, ...(authority && { NODE_EXTRA_CA_CERTS: authorities }) },
    stdio: ['ignore', 'pipe', 'inherit', ...(probe === undefined ? [] : ['ipc' as const])],
  })
  let greeting = ''
  while (!/^admin .*\n/m.test(greeting)) {
    const [chunk] = await Promise.race([once(child.stdout!, 'data'), once(child, 'exit')])
    if (child.exitCode !== null) throw new Error('bidweir does not start')
    greeting += String(chunk)
  }
  child.stdout!.resume()
  const port = (name: string) => Number(new RegExp(`^${name} .*?:(\\d+)/`, 'm').exec(greeting)![1])
  const admin = port('admin')
  return {
    ...{ pid: child.pid!, proxy: port('bid traffic'), admin },
    cpu: () => cpu(tree(child.pid!)),
    reload(changed) {
      // A reload that still runs must not read half of it.
      writeFileSync(`${file}.new`, text(changed))
      renameSync(`${file}.new`, file)
      child.kill('SIGHUP')
    },
    async probe<T = number>() {
      child.send('probe')
      return (await once(child, 'message'))[0] as T
    },
    metrics: async () => (await fetch(`http://127.0.0.1:${admin}/metrics`)).text(),
    async [Symbol.asyncDispose]() {
      // SIGINT, so that CPU profiles are written.
      await stop(child, 'SIGINT')
      folder[Symbol.dispose]()
    },
  }
}
