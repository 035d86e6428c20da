/** The order of what follows a win: its row is on disk, the model has trained with it, the notice is answered (CONTRACT 6). */
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const bids = 8

t.test(
  'a win trains the model after its commit and before its notice is answered',
  {
    skip: postgresAbsent,
  },
  async (t) => {
    const [database, supplier] = [await startPostgres(), await echoSupplier()]
    const node = await serveNode({
      suppliers: ['id: acme, opd: {enabled: true, holdout: .01}'],
      endpoint: supplier.url,
      more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${Buffer.alloc(32, 7).toString('base64url')}}]}`,
    })
    t.teardown(async () => {
      await node.stop()
      await supplier.close()
      await database.close()
    })
    /** Settled bids that the model knows. */
    const trained = async () => {
      const { title } = (await (await node.api('/api/svc/curve/?ssp=acme')).json()) as {
        title: string
      }
      return Number(/^Only (\d+) such bids are known/.exec(title)?.[1])
    }
    t.equal(await trained(), 0)
    // One bid after the other: once notices have come, a bid without one counts as lost after their usual delay.
    for (let n = 0; n < bids; n++) {
      const [bid] = await node.bids([{ id: `b${n}` }])
      const { id, out, svcOpd } = bid!
      const notice = { bid_id: id, price: String(out), svc_opd: svcOpd }
      if (n === 0) {
        await database.stop()
        t.equal((await node.notify(notice)).http, 503)
        t.equal(await trained(), 0, 'a win that is not on disk does not train')
        await database.start()
        await until(async () => (await node.notify(notice)).http === 200)
      } else t.match(await node.notify(notice), { http: 200, body: { status: 'attributed' } })
      t.equal(await trained(), n + 1, 'a win has trained when its notice is answered')
    }
  },
)
