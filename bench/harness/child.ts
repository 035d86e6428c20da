/** Processes that take part in a benchmark. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** SIGTERM, and SIGKILL where that is not enough within six seconds. */
export async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  const hard = setTimeout(() => child.kill('SIGKILL'), 6000)
  await ended
  clearTimeout(hard)
}

/** A module in a process of its own which answers one job after the other. */
export class Child<J, R> {
  readonly #child: ChildProcess
  constructor(file: URL, args: readonly string[] = []) {
    this.#child = fork(file, args, { stdio: 'inherit' })
  }
  get pid(): number {
    return this.#child.pid!
  }
  /** What it sends next: to a job, or by itself. */
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
  close(): Promise<void> {
    return stop(this.#child, 'SIGKILL')
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

/** Starts a program and waits until it accepts; rejects with what it printed when it ends instead. */
export async function startProgram(
  [program = '', ...args]: readonly string[],
  cwd: string,
  port: number,
): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream!.on('data', (chunk) => {
      printed = `${printed}${chunk}`.slice(-4000)
    })
  for (let tries = 0; !(await accepts(port)); tries++) {
    if (child.exitCode !== null || tries > 100) {
      await stop(child, 'SIGKILL')
      throw new Error(`${program} does not start: ${printed}`)
    }
    await wait(100)
  }
  return child
}
