/** The money of reports: exact, of the right event and in the right currency, whatever a notice contains. */

import { readRows } from '../../../admin/reports/rows.ts'
import type { LedgerRow } from '../../../admin/store/tables.ts'
import { decimal, difference } from '../../../opd/base/decimal.ts'
import { entry, unplaced } from '../../support/ledger-entry.ts'
import { onBoth, storeAt } from '../../support/store.ts'

const now = 1_790_000_000_000

let count = 0
const win = (supplier: string, over: Partial<LedgerRow> = {}): LedgerRow => {
  const { in_ba = '2', cleared = '1.8' } = over
  const margin = difference(in_ba!, cleared)
  return entry(`d${++count}`, { supplier, in_ba, cleared, margin, at: now, ...over })
}

const readings = {
  notices: { bill: 'billing', both: 'both' },
  rates: { USD: 1, EUR: 0.92, GBP: 0.8 },
  base: 'USD',
} as const

/** The exact sum of decimal texts, by another way than the program's. */
function sumOf(texts: readonly (string | null)[]): string {
  let sum = 0n
  for (const text of texts) {
    if (text === null) continue
    const { digits, scale } = decimal(text.replace('-', ''))!
    sum += (text.startsWith('-') ? -digits : digits) * 10n ** BigInt(20 - scale)
  }
  const digits = (sum < 0n ? -sum : sum).toString().padStart(21, '0')
  const fraction = digits.slice(-20).replace(/0+$/, '')
  return `${sum < 0n ? '-' : ''}${digits.slice(0, -20)}${fraction === '' ? '' : `.${fraction}`}`
}

onBoth(async (t, database) => {
  const store = await storeAt(t, database, { now: () => now })
  const keep = (...entries: LedgerRow[]) =>
    Promise.all(entries.map((entry) => store.ledger.record(entry)))
  const report = async (supplier: string, all = false) => {
    const scope = { suppliers: [supplier], all, from: 0, to: now + 1, by: 'ssp' as const }
    return readRows(store, scope, readings)
  }

  t.test('the sums of random wins are exact to the last digit', async (t) => {
    const entries = Array.from({ length: 2000 }, (_, n) =>
      win('random', {
        in_ba: String(Math.round(Math.random() * 1e9) / 10 ** (n % 10)),
        cleared: (Math.random() * 10 ** (n % 7)).toFixed(n % 12),
        price_dsp: null,
      }),
    ).filter(({ in_ba }) => !in_ba!.includes('e'))
    await keep(...entries)
    const [row] = await report('random')
    t.equal(row!.wins, entries.length)
    t.equal(row!.cleared, sumOf(entries.map(({ cleared }) => cleared)))
    t.equal(row!.margin, sumOf(entries.map(({ margin }) => margin)))
    t.equal(row!.revenue, sumOf(entries.map(({ in_ba }) => in_ba)))
  })

  t.test('an absurd price breaks no report', async (t) => {
    const absurd = '9'.repeat(60)
    await keep(win('absurd', { cleared: absurd }), win('absurd', { cleared: absurd }))
    await keep(win('absurd'))
    const [row] = await report('absurd')
    t.match(row, { wins: 3, revenue: '6', cleared: `1${'9'.repeat(58)}99.8`, out_ba: '5.7' })
  })

  t.test(
    'a price whose square, or which itself, is too small for a number breaks none',
    async (t) => {
      const tiny = [300, 330].map((zeros) => `0.${'0'.repeat(zeros)}1`)
      await keep(...tiny.map((in_ba) => win('tiny', { in_ba, cleared: '0' })), win('tiny'))
      const [row] = await report('tiny')
      t.match(row, { wins: 3, cleared: '1.8' })
      await t.resolves(report('tiny', true), 'nor the report of all suppliers')
    },
  )

  t.test('a price near the largest number breaks no report', async (t) => {
    const edge = `1${'0'.repeat(300)}`
    await keep(win('edge', { in_ba: edge, cleared: '1' }), win('edge'))
    const [row] = await report('edge')
    t.match(row, { wins: 2, cleared: '2.8' })
    t.equal(row!.revenue.length, 301)
  })

  t.test('where billing is money its rows are the wins, or the bills of wins', async (t) => {
    await keep(
      win('bill', { event: 'billing', decision: 'x1' }),
      win('bill', { event: 'win', decision: 'x1', margin: null }),
      win('bill', { event: 'win', margin: null }),
    )
    t.match(await report('bill'), [{ wins: 1, revenue: '2', cleared: '1.8', margin: '0.2' }])
    await keep(
      win('both', { event: 'win', decision: 'y1', margin: null }),
      win('both', { event: 'billing', decision: 'y1' }),
      win('both', { event: 'win', margin: null }),
    )
    t.match(await report('both'), [{ wins: 2, revenue: '2', cleared: '1.8', margin: '0.2' }])
  })

  t.test('revenue of the demand side is price_dsp; tests are neither wins nor money', async (t) => {
    await keep(
      win('dsp', { price_dsp: '2.5', margin: '0.7' }),
      win('dsp', { arm: 'test', margin: null }),
    )
    t.match(await report('dsp'), [
      { wins: 1, revenue: '2.5', cleared: '1.8', margin: '0.7', out_ba: '1.9' },
    ])
  })

  t.test('money is summed in the base; without a rate it is listed apart', async (t) => {
    await keep(
      win('cur'),
      win('cur', { currency: 'EUR', in_ba: '0.92', cleared: '0.46', out_ba: '0.828' }),
      win('cur', { currency: 'XAU', in_ba: '7', cleared: '6.5', out_ba: '7' }),
    )
    const [row] = await report('cur')
    t.match(row, { wins: 3, revenue: '3', cleared: '2.3', margin: '0.7', out_ba: '2.8' })
    t.same(row!.no_rate, {
      XAU: {
        wins: 1,
        revenue: '7',
        cleared: '6.5',
        out_ba: '7',
        margin: '0.5',
        difference: '-0.5',
      },
    })
  })

  t.test('a sum in another currency is converted to its last digit', async (t) => {
    await keep(
      win('exact', {
        currency: 'GBP',
        in_ba: '0.129772521',
        cleared: '0.000000511',
        out_ba: '0.1',
      }),
      win('exact', { currency: 'GBP', in_ba: '0.00000001', cleared: '0', out_ba: '0' }),
    )
    const exact = { cleared: '0.00000063875', margin: '0.162215025', revenue: '0.16221566375' }
    t.match(await report('exact'), [{ ...exact, out_ba: '0.125' }])
  })

  t.test('a bid that is found nowhere counts once, whichever events came', async (t) => {
    await keep(
      unplaced('bid:g', { at: now }),
      unplaced('bid:g', { event: 'billing', at: now }),
      unplaced('bid:h', { event: 'billing', at: now }),
    )
    t.match(await report('nobody', true), [{ key: '', unattributed: 2, wins: 0 }])
  })
})
