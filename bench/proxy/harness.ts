/** Origin, source and the proxies between them; one measurement at a time. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checked } from './honest.ts'
import { cpu, rss, tree } from './process.ts'
import type { Job, Outcome } from './source.ts'
import { type Running, start, subjects } from './subjects.ts'

export interface Sample extends Outcome {
  /** CPU microseconds of the proxy, user and system, children included, per request that was answered as it should be. */
  perRequest: number
  /** Answers a second. */
  rate: number
  /** Bytes, all processes of the proxy. */
  rss: number
  /** Share of the window in which origin and source did nothing: near 0 they would be the bottleneck. */
  originIdle: number
  sourceIdle: number
}

export interface Harness {
  running: Running[]
  /** Why a row is not there. */
  missing: { name: string; why: string }[]
  measure(of: Running, job: Omit<Job, 'port'>): Promise<Sample>
  close(): Promise<void>
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** The next message of a child for which `wanted` holds. */
function message<T>(child: ChildProcess, wanted: (message: T) => boolean): Promise<T> {
  return new Promise((resolve, reject) => {
    const look = (value: unknown) => {
      if (!wanted(value as T)) return
      child.off('message', look)
      resolve(value as T)
    }
    child.on('message', look)
    child.once('exit', (code) => reject(new Error(`a child of the benchmark ended with ${code}`)))
  })
}

export async function createHarness(only: string[], log: (text: string) => void): Promise<Harness> {
  const dir = mkdtempSync(join(tmpdir(), 'bidweir-bench-'))
  const child = (file: string) => fork(new URL(file, import.meta.url), { stdio: 'inherit' })
  const origin = child('./origin.ts')
  const source = child('./source.ts')
  origin.setMaxListeners(0)
  source.setMaxListeners(0)
  const { port: originPort } = await message<{ port: number }>(origin, () => true)
  const running: Running[] = []
  const missing: Harness['missing'] = []
  for (const [at, subject] of subjects.entries()) {
    if (only.length > 0 && !only.includes(subject.name)) continue
    let why = subject.missing()
    if (why === null)
      try {
        const started = await start(subject, join(dir, String(at)), await freePort(), originPort)
        running.push(started)
        why = await checked(started)
        if (why !== null) await running.pop()!.stop()
      } catch (error) {
        why = (error as Error).message.trim()
      }
    if (why !== null) missing.push({ name: subject.name, why })
    log(`${subject.name}: ${why ?? 'up'}`)
  }

  const originState = async () => {
    const answer = message<{ cpu: number }>(origin, (value) => 'cpu' in value)
    origin.send({})
    return (await answer).cpu
  }

  return {
    running,
    missing,
    async measure(of, job) {
      const begun = message<{ phase: string }>(source, ({ phase }) => phase === 'measuring')
      const done = message<{ phase: string; outcome: Outcome }>(
        source,
        ({ phase }) => phase === 'done',
      )
      source.send({ ...job, port: of.port })
      await begun
      const pids = tree(of.child.pid!)
      const [before, originBefore] = [cpu(pids), await originState()]
      const { outcome } = await done
      const [after, originAfter] = [cpu(pids), await originState()]
      const window = outcome.seconds * 1e6
      return {
        ...outcome,
        perRequest: (after - before) / Math.max(1, outcome.answers - outcome.bad),
        rate: outcome.answers / outcome.seconds,
        rss: rss(pids),
        originIdle: Math.max(0, 1 - (originAfter - originBefore) / window),
        sourceIdle: Math.max(0, 1 - outcome.cpu / window),
      }
    },
    async close() {
      await Promise.all(running.map((each) => each.stop()))
      origin.kill()
      source.kill()
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
