/** Sends win notices as a platform does: with a delay, some of them twice, some never. */
import { Pool } from 'undici'
import { mulberry32 } from '../../opd/shared/random.ts'

interface NoticeOptions {
  /** The admin listener: `http://127.0.0.1:8081`. */
  adminUrl: string
  /** `ssp` of each notice. */
  supplier: string
  /** Mean delay in milliseconds (exponential); default 3000. */
  delay?: number
  /** Shares; defaults 0.03 and 0.01. */
  loss?: number
  duplicates?: number
  seed?: number
}

interface Notices {
  /** `nurl` is that of the bid, with its macros expanded by the service; `cleared` replaces ${AUCTION_PRICE}, CPM in the bid's currency. */
  won(nurl: string, cleared: number): void
  counts: {
    sent: number
    lost: number
    duplicated: number
    failed: number
    byStatus: Record<string, number>
  }
  /** Drops the notices that have not been sent, and waits for responses to the others. */
  close(): Promise<void>
}

/** The notice to the platform, from the URL that the supplier calls. */
export function impressionQuery(nurl: string, cleared: number, supplier: string): string {
  const expanded = new URL(nurl.replaceAll('${AUCTION_PRICE}', String(cleared))).searchParams
  const query = new URLSearchParams({ ssp: supplier })
  for (const name of ['bid_id', 'price', 'svc_opd']) {
    const value = expanded.get(name)
    if (value !== null) query.set(name, value)
  }
  return query.toString()
}

/** Notices that wait at a time; more count as lost. */
const maxWaiting = 100_000

export function createNotices(options: NoticeOptions): Notices {
  const { supplier, delay = 3000, loss = 0.03, duplicates = 0.01 } = options
  const pool = new Pool(options.adminUrl, { connections: 8, pipelining: 1 })
  const random = mulberry32(options.seed ?? 7)
  const waiting = new Set<NodeJS.Timeout>()
  const counts: Notices['counts'] = { sent: 0, lost: 0, duplicated: 0, failed: 0, byStatus: {} }
  const send = async (query: string) => {
    counts.sent++
    try {
      const answer = await pool.request({ path: `/opd/imp?${query}`, method: 'GET' })
      const { status } = (await answer.body.json()) as { status?: unknown }
      const key = answer.statusCode === 200 ? String(status) : String(answer.statusCode)
      counts.byStatus[key] = (counts.byStatus[key] ?? 0) + 1
    } catch {
      counts.failed++
    }
  }
  const later = (query: string, mean: number) => {
    const timer = setTimeout(
      () => {
        waiting.delete(timer)
        void send(query)
      },
      -Math.log(1 - random()) * mean,
    )
    waiting.add(timer)
  }
  return {
    counts,
    won(nurl, cleared) {
      if (random() < loss || waiting.size >= maxWaiting) {
        counts.lost++
        return
      }
      const query = impressionQuery(nurl, cleared, supplier)
      later(query, delay)
      if (random() < duplicates) {
        counts.duplicated++
        later(query, delay * 2)
      }
    },
    async close() {
      for (const timer of waiting) clearTimeout(timer)
      waiting.clear()
      await pool.close()
    },
  }
}
