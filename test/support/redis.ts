/** A real redis-server of its own, without persistence. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
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
  /** It runs and sends nothing, as behind a network that drops packets. */
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

/** A line, or the text whose length the line says; of a list the line. null: it is not complete. */
function replyOf(text: string): string | null {
  const end = text.indexOf('\r\n')
  const line = text.slice(0, end)
  if (end < 0 || !line.startsWith('$')) return end < 0 ? null : line
  const [from, to] = [end + 2, end + 2 + Number(line.slice(1))]
  return text.length < to ? null : text.slice(from, to)
}

/** One command, without the client of Redis, which takes 30 ms of CPU for each connection. */
export const ask = (port: number, command: string) =>
  new Promise<string>((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(`${command}\r\n`))
    socket.on('error', reject).on('close', () => reject(new Error(`no reply to ${command}`)))
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const reply = replyOf(text)
      if (reply === null) return
      socket.destroy()
      if (reply.startsWith('-')) reject(new Error(reply))
      else resolve(reply)
    })
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
    holds: async (bidId) => (await ask(port, `KEYS "*:${bidId}"`)) !== '*0',
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
