/** What is wrong with this node as a whole, in sentences for the console. Suppliers have their own states. */
import type { NodeProblem } from '../admin/fleet/figures.ts'
import type { ReloadState } from './metrics.ts'

interface NodeProblemDeps {
  reload: () => ReloadState
  redis: { connected: boolean } | null
  /** Parts of the database that did not complete a write. */
  lost: () => string[]
  ratesStale: () => boolean
  draining: () => boolean
}

export function createNodeProblems(deps: NodeProblemDeps): () => NodeProblem[] {
  const { reload, redis, ratesStale, draining } = deps
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
    if (draining()) add('warn', 'the node is ending')
    return problems
  }
}
