/** What is wrong with this node as a whole, in sentences for the console. Suppliers have their own states. */
import type { NodeProblem } from '../admin/fleet/figures.ts'
import type { Difference } from '../admin/fleet/fingerprints.ts'
import type { ReloadState } from './metrics.ts'
import type { Disk } from './operation-metrics.ts'

interface NodeProblemDeps {
  reload: () => ReloadState
  redis: { connected: boolean } | null
  /** Parts of the database that did not complete a write. */
  lost: () => string[]
  ratesStale: () => boolean
  /** Milliseconds that the clock of the database is ahead of this node's. */
  clockAhead: () => number
  /** From most of the nodes. */
  differences: () => readonly Difference[]
  /** Seconds that a commit of wins takes at present. */
  commitSeconds: () => number
  /** null: not known. */
  disk: () => Disk | null
  /** Seconds since the refit that runs began. */
  refitSeconds: () => number
  /** Worker processes that were replaced; null: there are none. */
  workers: () => { ended: number; endedAt: number } | null
  draining: () => boolean
}

/** Milliseconds that the clocks of a node and of the database may differ. */
const maxClockOffset = 1000

/** Seconds of a commit, and of a refit, that are too long. */
const [slowCommit, longRefit] = [0.25, 60]
/** Shares of the disk below which it fills, and is full. */
const [littleDisk, fullDisk] = [0.1, 0.02]
/** Milliseconds for which a process that was replaced is a problem. */
const recentEnd = 30 * 60_000

/** Names of values in one sentence. */
const maxNames = 5

function differenceText({ part, other, names }: Difference): string {
  const rest = names.length - maxNames
  const list = names.slice(0, maxNames).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
  return part === 'context_keys'
    ? `the context keys differ from those of ${other} (${list}): one cannot read the contexts of the other`
    : `the configuration differs from that of ${other}: ${list}`
}

const percent = (share: number) => `${(share * 100).toFixed(1)} %`

/** What slows or ends parts of the node: the database, the disk, a refit, its processes. */
function* resourceProblems(deps: NodeProblemDeps): Generator<NodeProblem> {
  const commit = deps.commitSeconds()
  if (commit > slowCommit)
    yield {
      rule: 'slow_database',
      level: 'warn',
      text: `the database is slow: a commit of wins takes ${commit.toFixed(1)} s`,
    }
  const disk = deps.disk()
  const free = disk === null ? 1 : disk.free / disk.size
  if (free < fullDisk)
    yield {
      rule: 'disk',
      level: 'bad',
      text: `the disk of stateDir is full: ${percent(free)} is free, models are not saved`,
    }
  else if (free < littleDisk)
    yield {
      rule: 'disk',
      level: 'warn',
      text: `the disk of stateDir fills: ${percent(free)} is free`,
    }
  const refit = deps.refitSeconds()
  if (refit > longRefit)
    yield {
      rule: 'refit',
      level: 'warn',
      text: `a refit of the model has not ended for ${Math.round(refit / 60)} min`,
    }
  const workers = deps.workers()
  if (workers !== null && workers.ended > 0) {
    const ago = performance.now() - workers.endedAt
    if (ago < recentEnd)
      yield {
        rule: 'workers',
        level: 'warn',
        text: `a worker process ended or hung ${Math.round(ago / 60_000)} min ago and was replaced; ${workers.ended} since the start`,
      }
  }
}

export function createNodeProblems(deps: NodeProblemDeps): () => NodeProblem[] {
  const { reload, redis, ratesStale, clockAhead, draining } = deps
  return () => {
    const lost = deps.lost()
    const { successful, restart } = reload()
    const problems: NodeProblem[] = []
    const add = (level: NodeProblem['level'], rule: string, text: string) =>
      problems.push({ rule, level, text })
    if (lost.length > 0)
      add(
        'bad',
        'database',
        `the database does not respond (${lost.join(', ')}): win notices get 503`,
      )
    if (!successful)
      add(
        'bad',
        'configuration',
        'the configuration file has faults, which the log names; the one before is in use',
      )
    if (redis?.connected === false)
      add('bad', 'redis', 'Redis does not respond: the node learns and counts allotments alone')
    if (restart.length > 0)
      add(
        'warn',
        'restart',
        `a change of the configuration waits for a restart: ${restart.join(', ')}`,
      )
    if (ratesStale()) add('warn', 'rates', 'the exchange rates are old')
    for (const difference of deps.differences())
      add(
        difference.part === 'context_keys' ? 'bad' : 'warn',
        difference.part,
        differenceText(difference),
      )
    const ahead = clockAhead()
    if (Math.abs(ahead) > maxClockOffset)
      add(
        'warn',
        'clock',
        `the clock of the node is ${(Math.abs(ahead) / 1000).toFixed(1)} s ${ahead < 0 ? 'ahead of' : 'behind'} that of the database`,
      )
    problems.push(...resourceProblems(deps))
    if (draining()) add('warn', 'ending', 'the node is ending')
    return problems
  }
}
