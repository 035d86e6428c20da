/** A real PostgreSQL cluster of its own, in a temporary folder; null where the programs are absent. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tree } from '../../bench/harness/process.ts'
import { endWithTest } from './children.ts'
import { until } from './until.ts'

interface Postgres {
  url: string
  /** It and its connections stop where they are, and answer nobody; or go on. */
  freeze(frozen: boolean): void
  /** Its processes, the first one first. */
  pids(): number[]
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

/** The folder of PostgreSQL's programs. */
export function postgresPrograms(): string | null {
  const root = '/usr/lib/postgresql'
  if (!existsSync(root)) return null
  const [newest] = readdirSync(root).sort((one, other) => Number(other) - Number(one))
  const bin = join(root, newest ?? '', 'bin')
  return existsSync(join(bin, 'initdb')) ? bin : null
}

export const postgresAbsent = postgresPrograms() === null ? 'PostgreSQL not found' : false

const given = new Set<number>()

/** A port that nothing listens on, and that this process has not returned before. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  if (given.has(port)) return freePort()
  given.add(port)
  return port
}

/** PostgreSQL refuses to run as root. */
export function asPostgres() {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres']).toString())
  return { uid: id('-u'), gid: id('-g') }
}

function newFolder(who: ReturnType<typeof asPostgres>): string {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-pg-'))
  if (who.uid !== undefined) chownSync(folder, who.uid, who.gid)
  return folder
}

/** One database: the templates of others, which no test makes, are two thirds of what each test would copy. */
const shrink = [
  'update pg_database set datistemplate = false',
  'drop database template0',
  'drop database template1',
]

/** A fresh cluster. It is made once on a machine and shared: a copy takes a fraction of the CPU of `initdb`. */
function template(bin: string, who: ReturnType<typeof asPostgres>): string {
  const kept = join(
    process.env['SHARED_TMPDIR'] ?? tmpdir(),
    `bidweir-pg-template-2${bin.replaceAll('/', '-')}-${process.getuid?.()}`,
  )
  if (existsSync(kept)) return kept
  const fresh = newFolder(who)
  const data = join(fresh, 'data')
  const options = { ...who, cwd: fresh, stdio: 'ignore' as const }
  // Segments of the log of 1 MB instead of 16: each test copies one.
  const small = ['--no-sync', '--wal-segsize=1']
  const argv = ['-D', data, '-U', 'bidweir', '-A', 'trust', ...small]
  execFileSync(join(bin, 'initdb'), argv, options)
  const input = shrink.join('\n')
  const single = ['--single', '-D', data, 'postgres']
  execFileSync(join(bin, 'postgres'), single, { ...options, stdio: 'pipe', input })
  try {
    renameSync(fresh, kept)
  } catch {
    // another test file was faster
    rmSync(fresh, { recursive: true })
  }
  return kept
}

export async function startPostgres(): Promise<Postgres> {
  const bin = postgresPrograms()!
  const who = asPostgres()
  const folder = newFolder(who)
  const options = { ...who, cwd: folder, stdio: 'ignore' as const }
  execFileSync('cp', ['-a', join(template(bin, who), 'data'), folder], options)
  const port = await freePort()
  let child: ChildProcess = spawn('true')
  let gone: Promise<unknown> = Promise.resolve()
  const start = async () => {
    // Without fsync: a test kills processes, never the machine.
    const settings = ['-k', folder, '-h', '127.0.0.1', '-p', String(port), '-F']
    const argv = ['-D', join(folder, 'data'), ...settings, '-c', 'lc_messages=C']
    const stdio = ['ignore', 'ignore', 'pipe'] as const
    child = endWithTest(spawn(join(bin, 'postgres'), argv, { ...options, stdio: [...stdio] }))
    gone = new Promise((resolve) => child.once('exit', resolve))
    let logged = ''
    child.stderr!.on('data', (chunk) => {
      logged += chunk
    })
    const ready = () => logged.includes('ready to accept connections')
    await until(ready, { what: 'a PostgreSQL that accepts connections' })
  }
  const stop = async () => {
    child.kill('SIGQUIT')
    await gone
  }
  await start()
  // The first process starts the others and takes those that have ended: stopped first and continued last, it leaves the
  // list as it is from the moment at which it stops.
  const freeze = (frozen: boolean) => {
    const first = child.pid!
    if (frozen) process.kill(first, 'SIGSTOP')
    for (const pid of tree(first))
      try {
        process.kill(pid, frozen ? 'SIGSTOP' : 'SIGCONT')
      } catch (error) {
        // A connection ended at this moment.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    if (!frozen) process.kill(first, 'SIGCONT')
  }
  return {
    freeze,
    pids: () => [child.pid!, ...tree(child.pid!)],
    url: `postgres://bidweir@127.0.0.1:${port}/postgres`,
    start,
    stop,
    async close() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
