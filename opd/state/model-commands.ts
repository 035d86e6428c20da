/**
 * Commands for a running service as files: `bidweir model …` puts one into `commands/` beside the snapshots, the keeper
 * of the service does it and leaves its answer. Without a service the command waits for the next start.
 */
import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { writeDurably } from './snapshots.ts'

export const verbs = ['freeze', 'unfreeze', 'rollback', 'reset'] as const

export interface ModelCommand {
  verb: (typeof verbs)[number]
  /** Of a rollback: `revenue-12`; absent: the snapshot before the newest, of each mode. */
  id?: string
  supplier?: string
}

export interface Answer {
  ok: boolean
  message: string
}

const folder = 'commands'
const asks = /^(\d{13})-[0-9a-f-]{36}\.json$/
const answers = /\.done$/
const lookEvery = 500
/** An answer that nobody has fetched by then is removed; a command that nobody has done by then is not done any more. */
const answerLife = 3_600_000
const largest = 4096

function parse(text: string): ModelCommand {
  const { verb, id, supplier } = JSON.parse(text) as Partial<ModelCommand>
  if (verb === undefined || !verbs.includes(verb)) throw new Error('no command of ours')
  if (![id, supplier].every((each) => each === undefined || typeof each === 'string'))
    throw new Error('no command of ours')
  return {
    verb,
    ...(id === undefined ? {} : { id }),
    ...(supplier === undefined ? {} : { supplier }),
  }
}

async function done(dir: string, file: string, obey: (command: ModelCommand) => Promise<string>) {
  let answer: Answer
  try {
    const { size } = await stat(join(dir, file))
    if (size > largest) throw new Error('no command of ours')
    answer = { ok: true, message: await obey(parse(await readFile(join(dir, file), 'utf8'))) }
  } catch (error) {
    answer = { ok: false, message: (error as Error).message }
  }
  // Removed first: a command is done once, even where its answer cannot be written.
  await unlink(join(dir, file))
  await writeDurably(dir, `${file}.done`, Buffer.from(JSON.stringify(answer)))
}

async function look(dir: string, obey: (command: ModelCommand) => Promise<string>): Promise<void> {
  const files = (await readdir(dir)).sort()
  for (const file of files) {
    if (asks.test(file)) await done(dir, file, obey)
    if (!answers.test(file)) continue
    const { mtimeMs } = await stat(join(dir, file))
    if (mtimeMs < Date.now() - answerLife) await unlink(join(dir, file))
  }
}

export function watchCommands(
  models: string,
  obey: (command: ModelCommand) => Promise<string>,
  log: { error(fields: object, message: string): void },
  every = lookEvery,
): { close(): Promise<void> } {
  const dir = join(models, folder)
  mkdirSync(dir, { recursive: true })
  let running: Promise<void> | null = null
  let failing = false
  const turn = () => {
    running ??= look(dir, obey)
      .then(
        () => {
          failing = false
        },
        (error: NodeJS.ErrnoException) => {
          // The one who asked may have taken the answer away meanwhile.
          if (error.code === 'ENOENT') return
          if (!failing) log.error({ dir, err: error.message }, 'model commands cannot be read')
          failing = true
        },
      )
      .finally(() => {
        running = null
      })
    return running
  }
  const timer = setInterval(() => void turn(), every)
  timer.unref()
  void turn()
  return {
    async close() {
      clearInterval(timer)
      await running
    },
  }
}

/** Asks the service whose models these are; null: no answer within `wait` milliseconds, the command stays there. */
export async function ask(
  models: string,
  command: ModelCommand,
  wait: number,
): Promise<Answer | null> {
  const dir = join(models, folder)
  await mkdir(dir, { recursive: true })
  const file = `${String(Date.now()).padStart(13, '0')}-${randomUUID()}.json`
  await writeDurably(dir, file, Buffer.from(JSON.stringify(command)))
  const until = performance.now() + wait
  while (performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    const text = await readFile(join(dir, `${file}.done`), 'utf8').catch(() => null)
    if (text === null) continue
    await unlink(join(dir, `${file}.done`))
    return JSON.parse(text) as Answer
  }
  return null
}
