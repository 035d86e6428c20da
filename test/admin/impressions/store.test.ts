import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ImpressionCounters } from '../../../admin/impressions/counters.ts'
import { Notices } from '../../../admin/impressions/process.ts'
import { openStore } from '../../../admin/store/index.ts'
import { auction, hour, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const log = { info: () => {}, warn: () => {}, error: () => {} }
const caller = { subject: 'u', account: '*', roles: new Set(['api']) }

t.test(
  'one win is one row of SQLite, with or without context, before and after a restart',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'impressions-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const world = testEngine({ integrations: [integration('acme')] })
    const counters = new ImpressionCounters()

    async function start(engine: typeof world.engine) {
      const store = await openStore(`sqlite:${join(folder, 'test.db')}`, { now: world.now, log })
      const notices = new Notices({
        engine,
        ledger: store.ledger,
        auth: 'bearer',
        contextTtl: () => 48 * hour,
        integration: engine.integration,
        account: () => undefined,
        now: world.now,
        alert: () => {},
        onDuplicate: () => {},
        counters,
      })
      const notify = async (bidId: string, svcOpd?: string) => {
        const notice = { bidId, price: '0.9', svcOpd, ssp: undefined, priceDsp: undefined }
        return (await notices.process({ ...notice, event: 'win' }, caller)).status
      }
      return { store, notify }
    }

    const first = await start(world.engine)
    const ids = ['context first', 'bare first', 'unknown', 'nul \0', 'x'.repeat(8000)]
    const contexts = ids.map((id) =>
      id === 'unknown' ? undefined : auction(world.engine, { id }).svcOpd,
    )
    t.equal(await first.notify(ids[0]!, contexts[0]), 'attributed')
    t.equal(await first.notify(ids[1]!), 'attributed')
    t.equal(await first.notify(ids[2]!), 'unattributed')
    t.equal(await first.notify(ids[3]!, contexts[3]), 'attributed')
    t.equal(await first.notify(ids[4]!), 'attributed')
    await first.store.close()

    const second = await start(world.node())
    for (const [index, id] of ids.entries()) {
      t.equal(await second.notify(id, contexts[index]), 'duplicate', `${id.slice(0, 20)} with`)
      t.equal(await second.notify(id), 'duplicate', `${id.slice(0, 20)} without`)
    }
    const burst = await Promise.all(
      Array.from({ length: 200 }, (_, n) => second.notify(`b${n >> 1}`)),
    )
    t.equal(burst.filter((status) => status === 'unattributed').length, 100)
    t.equal(burst.filter((status) => status === 'duplicate').length, 100)
    await second.store.close()
    const parts = [...counters.impressions.values()].reduce((sum, count) => sum + count, 0)
    t.equal(parts, counters.received)
  },
)
