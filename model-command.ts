/** `bidweir model list|freeze|unfreeze|rollback [ID]|reset --supplier SSP`: the models of a node, while it runs or not. */
import { existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { modes } from './opd/arms.ts'
import { type Control, readControl, startControl } from './opd/state/control.ts'
import { ask, type ModelCommand } from './opd/state/model-commands.ts'
import { snapshots } from './opd/state/snapshots.ts'

/** The service looks twice a second; a rollback reads and writes a few megabytes. */
const patience = 5000

export interface ModelCommandDeps {
  /** Where the snapshots of the configuration at hand live. */
  dir: string
  /** Suppliers of the configuration. */
  suppliers: ReadonlySet<string>
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
  /** Milliseconds to wait for the service. */
  wait?: number
}

export interface ModelArgs {
  verb: 'list' | ModelCommand['verb']
  id?: string | undefined
  supplier?: string | undefined
  json?: boolean
}

interface Row {
  id: string
  mode: string
  at: string
  bytes: number
  newest: boolean
}

async function rowsOf(dir: string): Promise<Row[]> {
  const files = await readdir(dir).catch(() => [])
  const rows: Row[] = []
  for (const mode of modes)
    for (const [place, { file, version, at }] of snapshots(files, mode).entries()) {
      const { size } = await stat(join(dir, file))
      const id = `${mode}-${version}`
      rows.push({ id, mode, at: new Date(at).toISOString(), bytes: size, newest: place === 0 })
    }
  return rows
}

const iso = (at: number) => (at === 0 ? null : new Date(at).toISOString())

function stateOf({ frozen, epochs, resets }: Control) {
  return {
    frozen: frozen.is,
    rolled_back: { revenue: iso(epochs.revenue), margin: iso(epochs.margin) },
    resets: Object.fromEntries(Object.entries(resets).map(([id, at]) => [id, iso(at)])),
  }
}

function spelled(rows: readonly Row[], control: Control): string {
  const lines = rows.map(({ id, at, bytes, newest }) =>
    [id.padEnd(18), at, `${Math.ceil(bytes / 1024)} KiB`.padStart(10), newest ? '  newest' : '']
      .join('  ')
      .trimEnd(),
  )
  const said = [
    control.frozen.is ? 'frozen: decides, does not learn' : 'learning',
    ...modes
      .filter((mode) => control.epochs[mode] > 0)
      .map((mode) => `${mode} rolled back ${iso(control.epochs[mode])}`),
    ...Object.entries(control.resets).map(([id, at]) => `${id} forgotten ${iso(at)}`),
  ]
  return `${[...lines, ...said].join('\n')}\n`
}

async function list({ dir, stdout }: ModelCommandDeps, json: boolean): Promise<number> {
  const rows = await rowsOf(dir)
  const control = readControl(dir) ?? startControl()
  const whole = { ...stateOf(control), snapshots: rows }
  stdout.write(json ? `${JSON.stringify(whole, null, 2)}\n` : spelled(rows, control))
  return 0
}

/** What can be told to be wrong before the service is asked. */
async function fault(
  { dir, suppliers }: ModelCommandDeps,
  args: ModelArgs,
): Promise<string | null> {
  const { id, supplier } = args
  // A relative path from another folder would ask nobody, and leave its question there.
  if (!existsSync(dir)) return `no models in ${resolve(dir)}: run it where the service runs`
  if (supplier !== undefined && !suppliers.has(supplier)) return `no supplier ${supplier}`
  if (args.verb !== 'rollback') return null
  const rows = await rowsOf(dir)
  if (id !== undefined) return rows.some((row) => row.id === id) ? null : `no snapshot ${id}`
  return rows.some(({ newest }) => !newest) ? null : 'there is no earlier snapshot'
}

export async function modelCommand(args: ModelArgs, deps: ModelCommandDeps): Promise<number> {
  const { stdout, stderr, dir, wait = patience } = deps
  const wrong = await fault(deps, args)
  if (wrong !== null) {
    stderr.write(`bidweir: ${wrong}\n`)
    return 1
  }
  if (args.verb === 'list') return list(deps, args.json === true)
  const { verb, id, supplier } = args
  const command: ModelCommand = {
    verb,
    ...(id === undefined ? {} : { id }),
    ...(supplier === undefined ? {} : { supplier }),
  }
  const answer = await ask(dir, command, wait)
  if (answer === null) {
    stdout.write('no service answers: it will be done at the next start\n')
    return 0
  }
  if (answer.ok) stdout.write(`${answer.message}\n`)
  else stderr.write(`bidweir: ${answer.message}\n`)
  return answer.ok ? 0 : 1
}
