/** Redis or Valkey servers in a Cluster, or behind a Sentinel, each without persistence. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { ask } from './redis.ts'
import { until } from './until.ts'

export interface Servers {
  url: string
  /** Of the servers that hold data, by port. */
  kill(port: number): Promise<void>
  ports: number[]
  close(): Promise<void>
}

export function absent(program: string): string | false {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return false
  } catch {
    return `${program} not found`
  }
}

function starter(program: string) {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-redis-'))
  const children = new Map<number, ChildProcess>()
  const run = async (port: number, args: string[]) => {
    const child = endWithTest(spawn(program, args, { stdio: 'ignore', cwd: folder }))
    children.set(port, child)
    const answers = () =>
      ask(port, 'PING').then(
        () => true,
        () => false,
      )
    await until(answers, { what: `${program} that answers` })
  }
  const start = (port: number, more: string[] = []) =>
    run(port, [
      ...['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder],
      ...more,
    ])
  const kill = async (port: number) => {
    const child = children.get(port)!
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
  }
  const close = async () => {
    await Promise.all([...children.keys()].map(kill))
    rmSync(folder, { recursive: true, force: true })
  }
  return { folder, run, start, kill, close }
}

const slots = 16_384

/** Three masters. */
export async function startCluster(program: string): Promise<Servers> {
  const { start, kill, close } = starter(program)
  const ports: number[] = []
  for (let n = 0; n < 3; n++) {
    const [port, bus] = [await freePort(), await freePort()]
    ports.push(port)
    await start(port, [
      ...['--cluster-enabled', 'yes', '--cluster-config-file', `nodes-${port}.conf`],
      ...['--cluster-port', String(bus), '--cluster-node-timeout', '5000'],
    ])
    const [from, to] = [n, n + 1].map((part) => Math.floor((slots * part) / 3))
    await ask(port, `CLUSTER ADDSLOTSRANGE ${from} ${to! - 1}`)
    if (n > 0) await ask(ports[0]!, `CLUSTER MEET 127.0.0.1 ${port} ${bus}`)
  }
  const complete = async () => {
    const infos = await Promise.all(ports.map((port) => ask(port, 'CLUSTER INFO')))
    return infos.every((info) => /cluster_state:ok[\s\S]*known_nodes:3/.test(info))
  }
  const isComplete = () => complete().catch(() => false)
  await until(isComplete, { what: 'a Cluster of three' })
  const url = `redis+cluster://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`
  return { url, ports, kill, close }
}

/** A master, its replica, and a Sentinel that replaces the master within seconds. */
export async function startSentinel(program: string): Promise<Servers> {
  const { folder, start, run, kill, close } = starter(program)
  const [master, replica, sentinel] = [await freePort(), await freePort(), await freePort()]
  await start(master)
  await start(replica, [
    '--replicaof',
    '127.0.0.1',
    String(master),
    '--repl-diskless-sync-delay',
    '0',
  ])
  const file = join(folder, 'sentinel.conf')
  writeFileSync(
    file,
    [
      `port ${sentinel}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor main 127.0.0.1 ${master} 1`,
      'sentinel down-after-milliseconds main 1000',
      'sentinel failover-timeout main 5000',
    ].join('\n'),
  )
  await run(sentinel, [file, '--sentinel'])
  const follows = async () =>
    /slave0:[^\r]*state=online/.test(await ask(master, 'INFO replication')) &&
    /slaves=1/.test(await ask(sentinel, 'INFO sentinel'))
  await until(follows, { what: 'a replica that the Sentinel knows' })
  return {
    url: `redis+sentinel://127.0.0.1:${sentinel}/main`,
    ports: [master, replica],
    kill,
    close,
  }
}
