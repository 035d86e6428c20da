/** `bidweir debug`: asks the running service on its socket in the state folder (service/debug/debug-socket.ts). */
import { open, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { debugSocket } from '../debug/debug-socket.ts'
import { type CommandStreams, configOf } from './command.ts'
import { CommandError } from './exit-codes.ts'

interface Call {
  method: 'GET' | 'PUT' | 'POST'
  /** Below `/api/svc/debug/`. */
  path: string
  body?: object
}

export interface DebugOptions {
  config?: string | undefined
}

async function answerOf(
  options: DebugOptions,
  streams: CommandStreams,
  { method, path, body }: Call,
): Promise<IncomingMessage> {
  const { stateDir } = await configOf(options.config, streams)
  const socketPath = debugSocket(stateDir)
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' }
    request({ socketPath, method, path: `/api/svc/debug/${path}`, headers }, resolve)
      .on('error', (error) =>
        reject(new CommandError(1, `no service listens on ${socketPath}: ${error.message}`)),
      )
      .end(body === undefined ? undefined : JSON.stringify(body))
  })
  if (answer.statusCode === 200) return answer
  const { title, errors = [] } = (await json(answer)) as {
    title: string
    errors?: { detail: string }[]
  }
  throw new CommandError(1, [title, ...errors.map(({ detail }) => detail)].join(': '))
}

/** Writes the file of the answer. `output`: its name, or `-` for stdout; by default the name that the service gives it. */
export async function saved(
  { output, ...options }: DebugOptions & { output?: string | undefined },
  streams: CommandStreams,
  path: string,
): Promise<void> {
  const answer = await answerOf(options, streams, { method: 'POST', path })
  if (output === '-') {
    for await (const chunk of answer) streams.stdout.write(chunk as string)
    return
  }
  const given = /filename="([\w.-]+)"/.exec(String(answer.headers['content-disposition']))
  const name = output ?? given![1]!
  const failed = (error: Error): never => {
    throw new CommandError(1, `${name} cannot be written: ${error.message}`)
  }
  // A heap has keys.
  const file = await open(name, 'wx', 0o600).catch(failed)
  await pipeline(answer, file.createWriteStream()).catch(async (error: Error) => {
    // An incomplete file may fill the disk, and no program reads it.
    await rm(name, { force: true })
    failed(error)
  })
  streams.stdout.write(`${name}\n`)
}

interface LogState {
  level: string
  configured: string
  until: string | null
}

/** `level` undefined: prints the one in force. */
export async function log(
  options: DebugOptions,
  streams: CommandStreams,
  level: string | undefined,
  minutes: number,
): Promise<void> {
  const change: Call = { method: 'PUT', path: 'log/', body: { level, minutes } }
  const call: Call = level === undefined ? { method: 'GET', path: '' } : change
  const answer = (await json(await answerOf(options, streams, call))) as LogState & {
    log?: LogState
  }
  const { level: inForce, configured, until } = answer.log ?? answer
  streams.stdout.write(
    until === null ? `${inForce}\n` : `${inForce} until ${until}, then ${configured}\n`,
  )
}

type PrintOptions = DebugOptions & { format: string }

/** Prints a list as JSON, or each row as `textOf` has it. */
async function printed<Row>(
  options: PrintOptions,
  streams: CommandStreams,
  path: string,
  textOf: (row: Row) => string,
): Promise<void> {
  const rows = (await json(await answerOf(options, streams, { method: 'GET', path }))) as Row[]
  streams.stdout.write(
    options.format === 'json'
      ? `${JSON.stringify(rows, null, 2)}\n`
      : rows.map((row) => `${textOf(row)}\n`).join(''),
  )
}

interface Refused {
  at: string
  process: number
  ssp: string
  outcome: string
  reason: string | null
  status: number
  duration_ms: number
  endpoint: string | null
}

const refusedText = ({ reason, outcome, endpoint, ...row }: Refused): string => {
  const { at: time, process, ssp, status, duration_ms: duration } = row
  const why = reason === null ? outcome : `${outcome} (${reason})`
  const where = endpoint === null ? '' : ` at ${endpoint}`
  return `${time} process ${process} ${ssp} ${why} ${status} after ${duration} ms${where}`
}

export const refused = (
  options: PrintOptions,
  streams: CommandStreams,
  query: Record<string, string>,
): Promise<void> => printed(options, streams, `refused/?${new URLSearchParams(query)}`, refusedText)

interface Turn {
  at: string
  process: number
  late_ms: number
  cpu_ms: number
  gc_ms: number
  stack: string[] | null
}

const turnText = ({ at: time, process, stack, ...row }: Turn): string => {
  const { late_ms: late, cpu_ms: cpu, gc_ms: gc } = row
  const frames = (stack ?? []).map((frame) => `\n  ${frame}`).join('')
  return `${time} process ${process} late ${late} ms, CPU ${cpu} ms, garbage collector ${gc} ms${frames}`
}

export const turns = (options: PrintOptions, streams: CommandStreams): Promise<void> =>
  printed(options, streams, 'turns/', turnText)
