/** What other settings would have done: a decision log of a market whose win curve is known, replayed by the API. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { WhatIf } from '../../../admin/console/what-if.ts'
import { marketLines, spelled } from '../../support/decision-log.ts'
import { newFolder } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'

const bids = 20_000
const day = 86_400_000
const start = Date.now() - day

t.test(
  'what-if answers with the figures of the present settings beside those of others',
  async (t) => {
    const supplier = await echoSupplier()
    const folder = newFolder()
    const file = join(folder, 'decisions.ndjson')
    const lines = [
      ...[...marketLines({ bids: 500, ssp: 'other', start })].map(spelled),
      'not JSON',
      ...[...marketLines({ bids: 400, start: start - 9 * day, seed: 4 })].map(spelled),
    ]
    writeFileSync(`${file}.1`, `${lines.join('\n')}\n`)
    const market = marketLines({ bids, start, low: 0.5, explore: 0.5, holdout: 0.2 })
    writeFileSync(file, [...market].map((line) => `${spelled(line)}\n`).join(''))
    const opd = 'enabled: true, minFactor: .5, minWinRate: .6, minSpend: .5'
    const node = await serveNode({
      folder,
      endpoint: supplier.url,
      suppliers: [`id: acme, opd: {${opd}}`, `id: quiet, opd: {${opd}}`, 'id: off'],
      more: `opd: {decisionLog: {path: "${file}"}}`,
    })
    const bare = await serveNode({ endpoint: supplier.url, suppliers: [`id: acme, opd: {${opd}}`] })
    t.teardown(async () => {
      await Promise.all([node.bidweir.stop(), bare.bidweir.stop()])
      await supplier.close()
    })
    const read = async (query: string, target = node) => {
      const response = await target.api(`/api/svc/whatif/?${query}`)
      return { status: response.status, body: (await response.json()) as WhatIf & { code: string } }
    }

    const { status, body } = await read('ssp=acme&min_factor=0.95&share=0.5')
    t.equal(status, 200)
    t.match(body, {
      cut: false,
      currency: 'USD',
      now: { verified: true },
      tried: { verified: true },
    })
    t.ok(
      body.bids > 0.9 * bids && body.bids <= bids,
      `${body.bids} of the last days, of this supplier`,
    )
    t.ok(body.from! >= start && body.to! <= start + bids * 10 + 2000)
    const { now, tried } = body as {
      now: NonNullable<WhatIf['now']>
      tried: NonNullable<WhatIf['now']>
    }
    t.match(now.settings, { min_factor: 0.5, min_win_rate: 0.6, share: 1 })
    t.match(tried.settings, { min_factor: 0.95, min_win_rate: 0.6, share: 0.5 })
    t.ok(tried.mean_factor! >= 0.95 && now.mean_factor! < tried.mean_factor!)
    for (const { value, low, high } of [now.margin, now.kept_wins, tried.margin, tried.kept_wins])
      t.ok(low! < value! && value! < high!, `${low} ${value} ${high}`)
    t.ok(
      tried.kept_wins.value! > now.kept_wins.value!,
      'smaller reductions of fewer auctions keep more',
    )
    t.ok(tried.kept_wins.value! > 0.9 && tried.kept_wins.value! < 1.1)
    // half of the auctions, 5 % off at most
    t.ok(tried.margin.value! < 0.05 * 0.5 * 0.75 * 2.5 * (bids / 1000))
    t.ok(now.margin.value! > tried.margin.value!)

    t.match((await read('ssp=quiet')).body, { bids: 0, from: null, now: null, tried: null })
    t.match(await read('ssp=off'), { status: 404, body: { code: 'opd_off' } })
    t.match(await read('ssp=acme', bare), { status: 404, body: { code: 'no_decision_log' } })
    for (const query of ['ssp=acme&share=1.1', 'ssp=acme&min_factor=-1', 'ssp=acme&more=1', ''])
      t.equal((await read(query)).status, 400, query)
    const both = await Promise.all([read('ssp=acme'), read('ssp=acme')])
    t.same(both.map(({ status }) => status).sort(), [200, 503], 'one at a time')
  },
)
