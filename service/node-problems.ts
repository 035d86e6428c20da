/** What is wrong with this node as a whole, in sentences for the console. Suppliers have their own states. */
import type { NodeProblem } from '../admin/fleet/figures.ts'
import type { Difference } from '../admin/fleet/fingerprints.ts'
import type { ReloadState } from './metrics.ts'

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
  draining: () => boolean
}

/** Milliseconds that the clocks of a node and of the database may differ. */
const maxClockOffset = 1000

/** Names of values in one sentence. */
const maxNames = 5

function differenceText({ part, other, names }: Difference): string {
  const rest = names.length - maxNames
  const list = names.slice(0, maxNames).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
  return part === 'context_keys'
    ? `the context keys differ from those of ${other} (${list}): one cannot read the contexts of the other`
    : `the configuration differs from that of ${other}: ${list}`
}

export function createNodeProblems(deps: NodeProblemDeps): () => NodeProblem[] {
  const { reload, redis, ratesStale, clockAhead, draining } = deps
  return () => {
    const lost = deps.lost()
    const { successful, restart } = reload()
    const problems: NodeProblem[] = []
    const add = (level: NodeProblem['level'], text: string) => problems.push({ level, text })
    if (lost.length > 0)
      add('bad', `the database does not respond (${lost.join(', ')}): win notices get 503`)
    if (!successful)
      add('bad', 'the configuration file has faults, which the log names; the one before is in use')
    if (redis?.connected === false)
      add('bad', 'Redis does not respond: the node learns and counts allotments alone')
    if (restart.length > 0)
      add('warn', `a change of the configuration waits for a restart: ${restart.join(', ')}`)
    if (ratesStale()) add('warn', 'the exchange rates are old')
    for (const difference of deps.differences())
      add(difference.part === 'context_keys' ? 'bad' : 'warn', differenceText(difference))
    const ahead = clockAhead()
    if (Math.abs(ahead) > maxClockOffset)
      add(
        'warn',
        `the clock of the node is ${(Math.abs(ahead) / 1000).toFixed(1)} s ${ahead < 0 ? 'ahead of' : 'behind'} that of the database`,
      )
    if (draining()) add('warn', 'the node is ending')
    return problems
  }
}
