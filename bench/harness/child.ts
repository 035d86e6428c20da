/** Starts and stops the processes of a benchmark. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { freePort } from '../../test/support/postgres.ts'

export function newFolder() {
  const path = mkdtempSync(join(tmpdir(), 'bidweir-bench-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, maxRetries: 5 }) }
}

/** Sends SIGTERM, and SIGKILL if the process has not ended within six seconds. */
export async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  const hard = setTimeout(() => child.kill('SIGKILL'), 6000)
  await ended
  clearTimeout(hard)
}

/** A module in a process of its own. It takes one job after another, and sends the result of each. */
export class Child<J, R> implements AsyncDisposable {
  readonly #child: ChildProcess
  constructor(file: URL, args: readonly string[] = []) {
    this.#child = fork(file, args, { stdio: 'inherit' })
  }
  get pid(): number {
    return this.#child.pid!
  }
  /** The next message of the module: a result, or one that it sends by itself. */
  answer(): Promise<R> {
    return new Promise((resolve, reject) => {
      const ended = (code: number | null) => reject(new Error(`a child ended with ${code}`))
      this.#child.once('exit', ended)
      this.#child.once('message', (message) => {
        this.#child.off('exit', ended)
        resolve(message as R)
      })
    })
  }
  ask(job: J): Promise<R> {
    const answer = this.answer()
    this.#child.send(job as object)
    return answer
  }
  [Symbol.asyncDispose](): Promise<void> {
    return stop(this.#child, 'SIGKILL')
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

export interface Program extends AsyncDisposable {
  pid: number
  port: number
}

/** Starts HAProxy with a configuration. */
export const startHaproxy = (config: (port: number) => string): Promise<Program> =>
  startProgram((dir, port) => {
    const file = join(dir, 'haproxy.cfg')
    writeFileSync(file, config(port))
    return ['haproxy', '-db', '-f', file]
  })

/** Starts a server in a folder of its own; rejects with its output if it ends before it accepts connections. */
export async function startProgram(
  command: (dir: string, port: number) => readonly string[],
): Promise<Program> {
  using stack = new DisposableStack()
  const { path: cwd } = stack.use(newFolder())
  const port = await freePort()
  const [program = '', ...args] = command(cwd, port)
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      printed = `${printed}${chunk}`.slice(-4000)
    })
  for (let tries = 0; !(await accepts(port)); tries++) {
    if (child.exitCode !== null || tries > 100) {
      await stop(child, 'SIGKILL')
      throw new Error(`${program} does not start: ${printed}`)
    }
    await wait(100)
  }
  const folder = stack.move()
  return {
    ...{ pid: child.pid!, port },
    async [Symbol.asyncDispose]() {
      await stop(child)
      folder.dispose()
    },
  }
}
