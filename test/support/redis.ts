/** A real redis-server of its own, without persistence. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { createClient } from '@redis/client'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { until } from './until.ts'

function absent(): string | false {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' })
    return false
  } catch {
    return 'redis-server not found'
  }
}

export const redisAbsent = absent()

export interface Redis {
  url: string
  start(): Promise<void>
  stop(): Promise<void>
  /** It lives and says nothing, as behind a network that swallows. */
  hang(): void
  resume(): void
  /** The shared bid log has come to this bid: nodes write it some milliseconds after they answer. */
  holds(bidId: string): Promise<boolean>
}

export const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (good: boolean) => () => {
      socket.destroy()
      resolve(good)
    }
    socket.once('connect', end(true)).once('error', end(false))
  })

export async function startRedis(): Promise<Redis> {
  const port = await freePort()
  let child: ChildProcess = spawn('true')
  const start = async () => {
    const settings = [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--dir',
      tmpdir(),
    ]
    child = endWithTest(spawn('redis-server', settings, { stdio: 'ignore' }))
    await until(() => accepts(port), { what: 'a Redis that accepts connections' })
  }
  await start()
  const url = `redis://127.0.0.1:${port}`
  return {
    url,
    async holds(bidId) {
      const client = await createClient({ url }).connect()
      const keys = await client.keys(`*:${bidId}`)
      client.destroy()
      return keys.length > 0
    },
    start,
    hang: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', () => resolve())
        child.kill('SIGKILL')
      }),
  }
}
