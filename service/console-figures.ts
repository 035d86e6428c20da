/** What the console shows of one supplier, for the terminal of the demo. */
import type { LiveQuestion } from '../admin/fleet/live.ts'
import type { LiveSnapshot } from '../admin/fleet/live-schema.ts'
import type { ReportRules } from '../admin/reports/arms.ts'
import { inUnits } from '../admin/reports/render.ts'
import { readRows } from '../admin/reports/rows.ts'
import type { Store } from '../admin/store/index.ts'
import type { ConsoleFigures } from './demo/figures.ts'

interface FiguresDeps {
  ask: (question: LiveQuestion) => Promise<string>
  now: () => number
  store: Store
  flush: () => Promise<void>
  rules: () => ReportRules
}

const everyone = { subject: 'terminal', account: '*', roles: new Set<string>() }

export function consoleFigures({ ask, store, flush, rules, now }: FiguresDeps) {
  return async (supplier: string): Promise<ConsoleFigures | null> => {
    await flush()
    const answer = await ask({ call: 'live', caller: everyone, query: { ssp: supplier } })
    const [integration] = (JSON.parse(answer) as LiveSnapshot).integrations
    if (integration === undefined) return null
    const time = now()
    const scope = { suppliers: [supplier], all: false, by: 'ssp', to: time + 1 } as const
    // The day of this machine: a browser on it shows the same day.
    const from = new Date(time).setHours(0, 0, 0, 0)
    const [row] = await readRows(store, { ...scope, from }, rules())
    return { live: integration, today: row === undefined ? null : inUnits(row) }
  }
}
