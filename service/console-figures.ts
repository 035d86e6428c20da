/** What the console shows of one supplier, for the terminal of the demo. */
import { type LiveDeps, liveSnapshot } from '../admin/fleet/live.ts'
import type { ReportRules } from '../admin/reports/arms.ts'
import { inUnits } from '../admin/reports/render.ts'
import { readRows } from '../admin/reports/rows.ts'
import type { Store } from '../admin/store/index.ts'
import type { ConsoleFigures } from './demo/figures.ts'

interface FiguresDeps {
  live: LiveDeps
  store: Store
  flush: () => Promise<void>
  rules: () => ReportRules
}

const everyone = { subject: 'terminal', account: '*', roles: new Set<string>() }

export function consoleFigures({ live, store, flush, rules }: FiguresDeps) {
  return async (supplier: string): Promise<ConsoleFigures | null> => {
    await flush()
    const snapshot = await liveSnapshot(live, everyone)
    const integration = snapshot?.integrations.find(({ ssp }) => ssp === supplier)
    if (integration === undefined) return null
    const now = live.now()
    const scope = { suppliers: [supplier], all: false, by: 'ssp', to: now + 1 } as const
    // The day of this machine: a browser on it shows the same day.
    const from = new Date(now).setHours(0, 0, 0, 0)
    const [row] = await readRows(store, { ...scope, from }, rules())
    return { live: integration, today: row === undefined ? null : inUnits(row) }
  }
}
