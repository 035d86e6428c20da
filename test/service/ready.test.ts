/** A node is ready when it has what bids need. It waits for the models of other nodes only if Redis may have them. */
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'

const key = Buffer.alloc(32, 7).toString('base64url')

/** Timers that are started meanwhile do not run. */
async function withoutTimers<Result>(work: () => Promise<Result>): Promise<Result> {
  const real = globalThis.setInterval
  const never = (run: () => void) => real(run, 2 ** 31 - 1)
  globalThis.setInterval = never as typeof setInterval
  try {
    return await work()
  } finally {
    globalThis.setInterval = real
  }
}

t.test(
  'a node whose PostgreSQL is lost before any of its timers has run is ready with its own model',
  { skip: postgresAbsent },
  async (t) => {
    const [supplier, database] = await Promise.all([echoSupplier(), startPostgres()])
    const node = await withoutTimers(() =>
      serveNode({
        endpoint: supplier.url,
        suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
        more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      }),
    )
    t.teardown(async () => {
      await node.stop()
      await Promise.all([supplier.close(), database.close()])
    })
    await database.stop()
    t.equal((await fetch(`${node.admin}/readyz`)).status, 200)
    t.match((await node.bid({ id: 'alone' })).svcOpd, /^[\w-]+$/)
  },
)
