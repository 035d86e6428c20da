/** One bare win that nobody could place stands for one decision, on both databases and over two nodes. */
import t from 'tap'
import type { LedgerEntry } from '../../admin/ports.ts'
import { openStore } from '../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'

const log = { info() {}, warn() {}, error() {} }
const unattributed = (decision: string, supplier: string | null): LedgerEntry => ({
  decision,
  event: 'win',
  bidId: 'b1',
  status: 'unattributed',
  by: null,
  supplier,
  mode: null,
  arm: null,
  publisher: null,
  domain: null,
  inBa: null,
  outBa: null,
  cleared: '1',
  priceDsp: null,
  currency: null,
  margin: null,
  late: false,
  over: false,
  reason: 'unknown_bid',
  decidedAt: null,
  at: 1000,
})

function suite(
  title: string,
  skip: string | false,
  make: () => Promise<{ url: string; close(): Promise<void> }>,
) {
  t.test(title, { skip }, async (t) => {
    const database = await make()
    const nodes = [
      await openStore(database.url, { now: Date.now, log }),
      await openStore(database.url, { now: Date.now, log }),
    ]
    t.teardown(async () => {
      for (const node of nodes) await node.close()
      await database.close()
    })
    const [one, two] = nodes.map(({ ledger }) => ledger)
    await one!.record(unattributed('bid:b1', null))
    await one!.record(unattributed('bid@zeta:b1', 'zeta'))
    const win = { bidId: 'b1', event: 'win' as const, since: 500, supplier: 'acme' }
    const asked = ['d1', 'd2', 'd3'].flatMap((decision) => [
      one!.standsFor(decision, win),
      two!.standsFor(decision, win),
    ])
    const answers = await Promise.all(asked)
    const owners = ['d1', 'd2', 'd3'].filter((_, n) => answers[2 * n] || answers[2 * n + 1])
    t.equal(owners.length, 1, 'one decision takes it, on whichever node')
    t.equal(await two!.standsFor(owners[0]!, win), true, 'and keeps it')
    t.equal(await one!.standsFor('d9', win), false)
    t.equal(await one!.standsFor('d9', { ...win, supplier: 'zeta' }), true, "zeta's own is free")
    t.equal(await one!.standsFor('d8', { ...win, since: 2000 }), false, 'older than asked for')
    t.equal(await one!.standsFor('d8', { ...win, event: 'billing' }), false)
  })
}

suite('SQLite', false, async () => ({ url: `sqlite:${newFolder()}/b.db`, close: async () => {} }))
suite('PostgreSQL', postgresAbsent, startPostgres)
