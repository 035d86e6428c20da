/** Several processes share the listener: one admin plane, one ledger, wins attributed whoever decided (CONTRACT 2). */
import t from 'tap'
import { echoSupplier, sumOf } from '../../support/service-node.ts'
import { startWorkers } from '../../support/workers.ts'

t.test('a node of two processes', async (t) => {
  const supplier = await echoSupplier()
  const node = await startWorkers({ endpoint: supplier.url, auth: 'none' })
  t.teardown(() => Promise.all([node.stop('SIGKILL'), supplier.close()]))

  t.test('bids of all processes: wins, bare and with context, and sums', async (t) => {
    const count = 40
    const bids = []
    for (let n = 0; n < count; n++) bids.push(await node.bid({ id: `bid-${n}`, price: 2 }))
    const seen = await node.requestsByWorker()
    t.ok(seen.every((requests) => requests > 0) && seen.length === 2, `spread ${seen}`)
    for (const [n, { id, svcOpd }] of bids.entries()) {
      const context = n % 2 === 0 ? svcOpd : undefined
      const { body } = await node.notify({ bid_id: id, price: '0.5', svc_opd: context })
      t.match(body, { status: 'attributed', by: n % 2 === 0 ? 'context' : 'bid_log' })
    }
    const metrics = await node.metrics()
    t.equal(sumOf(metrics, 'bidweir_requests_total', 'outcome="answer"'), count)
    t.equal(sumOf(metrics, 'bidweir_bids_total'), count)
    t.equal(sumOf(metrics, 'bidweir_request_duration_seconds_count'), count)
    const [row] = await node.report('discrepancy?ssp=acme&by=ssp')
    t.match(row, { decided: count, wins: count, unattributed: 0 })
  })

  t.test('a notice at once, bare and with context, wins one time', async (t) => {
    for (let n = 0; n < 30; n++) {
      const { id, svcOpd } = await node.bid({ id: `at-once-${n}`, price: 2 })
      const notices = await Promise.all([
        node.notify({ bid_id: id, price: '0.5' }),
        node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd }),
      ])
      const statuses = notices.map(({ body }) => body['status']).toSorted()
      t.same(statuses, ['attributed', 'duplicate'], 'the decision is found without waiting')
    }
    const [row] = await node.report('discrepancy?ssp=acme&by=ssp')
    t.match(row, { decided: 70, wins: 70, unattributed: 0, duplicate: 30 })
  })

  t.test('the latest decision of a bid id counts, whichever process made it', async (t) => {
    for (let n = 0; n < 12; n++) {
      const price = 2 + n
      const { svcOpd } = await node.bid({ id: 'same', price })
      const explained = await node.api(`/api/svc/decisions/${svcOpd}?bid_id=same`)
      const { id } = (await explained.json()) as { id: string }
      await node.notify({ bid_id: 'same', price: '0.5' })
      const by = await node.notify({ bid_id: 'same', price: '0.5', svc_opd: svcOpd })
      t.equal(by.body['status'], 'duplicate', `the bare notice was that of ${id}`)
    }
  })
})
