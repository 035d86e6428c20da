/** The ledger: once per decision and event, on disk before it says so, the same on both stores. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { LedgerEntry } from '../../admin/ports.ts'
import { openStore } from '../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'

const log = { info() {}, warn() {}, error() {} }
const open = (url: string) => openStore(url, { now: Date.now, log, every: 50 })

export const entry = (decision: string, over: Partial<LedgerEntry> = {}): LedgerEntry => ({
  decision,
  event: 'win',
  bidId: `bid-${decision}`,
  status: 'attributed',
  by: 'context',
  supplier: 'acme',
  mode: 'revenue',
  arm: 'treated',
  publisher: 'p',
  domain: 'd',
  inBa: '2.10',
  outBa: '1.9',
  cleared: '1.85',
  priceDsp: null,
  currency: 'USD',
  margin: '0.25',
  late: false,
  over: false,
  reason: null,
  decidedAt: 1,
  at: Date.now(),
  ...over,
})

function suite(
  title: string,
  skip: string | false,
  make: () => Promise<{
    url: string
    close(): Promise<void>
    stop?(): Promise<void>
    start?(): Promise<void>
  }>,
) {
  t.test(title, { skip }, async (t) => {
    const database = await make()
    const store = await open(database.url)
    t.teardown(async () => {
      await store.close()
      await database.close()
    })
    const { ledger } = store
    t.equal(await ledger.record(entry('a')), 'recorded')
    t.equal(await ledger.record(entry('a')), 'duplicate')
    t.equal(await ledger.record(entry('a', { event: 'billing' })), 'recorded', 'each event once')
    const together = await Promise.all(
      Array.from({ length: 1200 }, (_each, n) => ledger.record(entry(`t${n % 600}`))),
    )
    t.equal(
      together.filter((outcome) => outcome === 'recorded').length,
      600,
      'twins of one batch count once',
    )
    t.equal(await ledger.seenBid('bid-a', 'win', 0), true)
    t.equal(await ledger.seenBid('bid-a', 'win', Date.now() + 1000), false)
    t.equal(await ledger.seenBid('bid-z', 'win', 0), false)
    await ledger.record(entry('r', { status: 'rejected', bidId: 'refused' }))
    t.equal(await ledger.seenBid('refused', 'win', 0), false, 'a rejected notice is no win')
    const other = await open(database.url)
    t.equal(await other.ledger.record(entry('a')), 'duplicate', 'to any node, after any restart')
    const [row] = await other.db
      .selectFrom('ledger')
      .selectAll()
      .where('decision', '=', 'a')
      .where('event', '=', 'win')
      .execute()
    t.match(row, { in_ba: '2.10', margin: '0.25', late: 0 })
    await other.close()
    if (database.stop === undefined) return
    await database.stop()
    await t.rejects(ledger.record(entry('lost')), { name: 'StoreError' })
    await t.rejects(store.ping(), { name: 'StoreError' })
    await database.start!()
    const again = async (): Promise<string> => ledger.record(entry('lost')).catch(() => again())
    t.equal(await again(), 'recorded', 'it comes back by itself')
  })
}

suite('SQLite', false, async () => ({ url: `sqlite:${newFolder()}/b.db`, close: async () => {} }))
suite('PostgreSQL', postgresAbsent, startPostgres)

t.test(
  'kill -9 at random moments under 8 writers: nothing acknowledged is lost, nothing doubled',
  async (t) => {
    const url = `sqlite:${newFolder()}/b.db`
    const acknowledged = new Set<string>()
    const script = fileURLToPath(new URL('writer.ts', import.meta.url))
    const rounds = 50
    for (let round = 0; round < rounds; round++) {
      const child = spawn(process.execPath, [script, url, String(round)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let text = ''
      child.stdout.on('data', (chunk) => {
        text += chunk
      })
      await once(child.stdout, 'data')
      await new Promise((resolve) => setTimeout(resolve, (round * 7) % 40))
      child.kill('SIGKILL')
      await once(child, 'close')
      for (const id of text.split('\n').slice(0, -1)) acknowledged.add(id)
    }
    const store = await open(url)
    t.teardown(() => store.close())
    const rows = await store.db.selectFrom('ledger').select('decision').execute()
    const stored = new Set(rows.map(({ decision }) => decision))
    t.equal(stored.size, rows.length)
    t.same(
      [...acknowledged].filter((id) => !stored.has(id)),
      [],
    )
    t.ok(acknowledged.size > rounds, `${acknowledged.size} acknowledged`)
  },
)
