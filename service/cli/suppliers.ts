/** `bidweir apply -f FILE` and `bidweir diff -f FILE`: the suppliers of the API, as a list that is applied as a whole. */
import { randomUUID } from 'node:crypto'
import { dirname } from 'node:path'
import { Problem } from '../../admin/http/problem.ts'
import {
  type BlockRules,
  type Difference,
  type ListPlan,
  listFaults,
  planList,
  revisionOf,
} from '../../admin/management/block-plans.ts'
import type { Store } from '../../admin/store/index.ts'
import { type Block, changeBlocks, readBlocks } from '../../admin/store/supplier-blocks.ts'
import { readText } from '../config/files.ts'
import { referenceRules } from '../config/supplier-block.ts'
import { type Path, pathText } from '../config/values.ts'
import { readYaml } from '../config/yaml.ts'
import { keysFile } from '../context-keys.ts'
import { supplierRules } from '../supplier-rules.ts'
import { type CommandStreams, loadedOf, withStore } from './command.ts'
import { CommandError, noInput } from './exit-codes.ts'

interface SupplierList {
  list: Block[]
  /** The line of an entry, or of a value in it. */
  lineOf(path: Path): number | null
}

function readList(file: string): SupplierList {
  const read = readText(file)
  if ('fault' in read)
    throw new CommandError(noInput, `${file}, ${read.fault}; allowed: ${read.allowed}`)
  const { root: value, faults, lineOf } = readYaml(read.text)
  if (faults.length > 0) {
    const lines = faults.map(
      ({ line, found, allowed }) => `${file}:${line ?? 1}: found ${found}, allowed: ${allowed}`,
    )
    throw new CommandError(1, lines.join('\n'))
  }
  const isMap = value !== null && typeof value === 'object' && !Array.isArray(value)
  const list =
    isMap && Object.keys(value).join() === 'suppliers' ? (value as Block)['suppliers'] : value
  if (!Array.isArray(list))
    throw new CommandError(
      1,
      `${file}: found ${isMap ? `the keys ${Object.keys(value).join(', ')}` : 'no list'}, allowed: a list of suppliers, or \`suppliers: […]\` alone`,
    )
  const isWrapped = list !== value
  return { list, lineOf: (path) => lineOf(isWrapped ? ['suppliers', ...path] : path) }
}

/** The faults of a problem as lines of the file. */
function faultLines(file: string, { lineOf }: SupplierList, problem: Problem): string {
  if (problem.faults.length === 0) return problem.message
  return problem.faults
    .map(({ pointer, detail }) => {
      const path = pointer
        .split('/')
        .slice(1)
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
        .map((part) => (/^\d+$/.test(part) ? Number(part) : part))
      const line = lineOf(path) ?? lineOf(path.slice(0, 1))
      return `${file}${line === null ? '' : `:${line}`}: ${pathText(['suppliers', ...path])}: ${detail}`
    })
    .join('\n')
}

function differenceLine({ pointer, ...values }: Difference): string {
  const text = (value: unknown) => (value === undefined ? 'nothing' : JSON.stringify(value))
  return `  ${pointer}: ${text(values.before)} -> ${text(values.after)}\n`
}

function planText(plan: ListPlan): string {
  const { created, changed, deleted, unchanged, difference } = plan
  return [
    ...created.map((id) => `+ ${id}\n`),
    ...changed.map((id) => `~ ${id}\n${difference[id]!.map(differenceLine).join('')}`),
    ...deleted.map((id) => `- ${id}\n`),
    `${created.length} created, ${changed.length} changed, ${deleted.length} deleted, ${unchanged.length} unchanged\n`,
  ].join('')
}

interface ListOptions {
  file: string
  config?: string | undefined
}

/** Works while the service runs, and while it does not: nodes act on the suppliers within two seconds. */
async function withList(
  { file, config: configFile }: ListOptions,
  streams: CommandStreams,
  work: (store: Store, rules: BlockRules, list: Block[]) => Promise<string>,
): Promise<void> {
  const loaded = await loadedOf(configFile, streams)
  const read = readList(file)
  const base = configFile === undefined ? '.' : dirname(configFile)
  const { stateDir, proxy } = loaded.config
  const references = referenceRules(
    base,
    () => [keysFile(stateDir), ...loaded.nodeFiles],
    () => proxy.tls?.clientCa !== undefined,
  )
  const rules = supplierRules(() => loaded, configFile ?? null, references)
  return withStore(loaded.config, streams, async (store) => {
    try {
      await listFaults(rules, read.list)
      return await work(store, rules, read.list)
    } catch (error) {
      if (error instanceof Problem) throw new Error(faultLines(file, read, error))
      throw error
    }
  })
}

interface Preview {
  plan: ListPlan
  /** The plan, and what it is based on. */
  text: string
}

async function previewed(
  { db }: Store,
  rules: BlockRules,
  list: Block[],
  ifMatch?: number,
): Promise<Preview> {
  const rows = await readBlocks(db)
  const revision = revisionOf(rows)
  refuseOutdated(revision, ifMatch)
  const plan = await planList(rules, list, new Map(rows.map((row) => [row.id, row])))
  return { plan, text: `${planText(plan)}revision ${revision}\n` }
}

function refuseOutdated(revision: number, ifMatch: number | undefined): void {
  if (ifMatch !== undefined && ifMatch !== revision)
    throw new CommandError(
      1,
      `a supplier has changed since revision ${ifMatch}, the last one is ${revision}: nothing is changed; see the difference again`,
    )
}

export const apply = (
  { dryRun, ifMatch, ...options }: ListOptions & { dryRun: boolean; ifMatch?: number },
  streams: CommandStreams,
): Promise<void> =>
  withList(options, streams, async (store, rules, list) => {
    if (dryRun) {
      const { text } = await previewed(store, rules, list, ifMatch)
      return `${text}dry run: nothing is changed\n`
    }
    const plans: ListPlan[] = []
    const author = { who: 'bidweir apply', account: '*', requestId: randomUUID() }
    await changeBlocks(store, Date.now(), author, null, async (current) => {
      refuseOutdated(revisionOf(current.values()), ifMatch)
      const plan = await planList(rules, list, current)
      plans.push(plan)
      return plan.changes
    })
    return plans.map(planText).join('')
  })

/** Exits with 1 if there is a difference. */
export async function diff(options: ListOptions, streams: CommandStreams): Promise<void> {
  let differs = false
  await withList(options, streams, async (store, rules, list) => {
    const { plan, text } = await previewed(store, rules, list)
    differs = plan.changes.length > 0
    return text
  })
  if (differs) throw new CommandError(1, '')
}
