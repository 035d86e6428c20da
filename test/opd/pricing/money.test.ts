import fc from 'fast-check'
import t from 'tap'
import {
  compare,
  decimal,
  decimalText,
  difference,
  microsText,
  plain,
  shortMicros,
} from '../../../opd/base/decimal.ts'
import { amounts, applyFactor, keptShareOf } from '../../../opd/pricing/amounts.ts'

t.test('a JSON number becomes a plain decimal of the same value', async (t) => {
  const cases: [string, string][] = [
    ['2.5E0', '2.5'],
    ['1.00', '1.00'],
    ['0.7500000000000001', '0.7500000000000001'],
    ['20000000000000000000', '20000000000000000000'],
    ['25e-1', '2.5'],
    ['1e3', '1000'],
    ['1.50e1', '15'],
    ['1E+2', '100'],
    ['12e-7', '0.0000012'],
    ['2e000001', '20'],
    ['2E-0000000001', '0.2'],
    [`1e${'0'.repeat(500)}`, '1'],
    ['1e-300', `0.${'0'.repeat(299)}1`],
  ]
  for (const [wire, text] of cases) t.equal(plain(wire), text, wire)
})

t.test('a text that is no finite number is no decimal', async (t) => {
  for (const text of ['1e999', '', '-1', 'x', '1.', '.5', '1e', '0x10', '1e99999'])
    t.equal(decimal(text), null, text)
})

t.test('differences are exact and may be negative', async (t) => {
  t.equal(difference('0.3', '0.1'), '0.2')
  t.equal(difference('1.00', '1.5'), '-0.5')
  t.equal(difference('0.7500000000000001', '0.75'), '0.0000000000000001')
  t.equal(difference('2', '2.000'), '0')
})

const out = (price: string, fee: number, floor: string, factor: number) => {
  const money = amounts(price, Number(price), Number(floor), floor, keptShareOf(fee))
  const text = money.atFloor ? null : applyFactor(money, factor)
  return { in: money.inText, price: text, out: text ?? money.priceText, atFloor: money.atFloor }
}

t.test('fee 10 %, price 1.00, factor .9: the floor decides', async (t) => {
  t.same(out('1.00', 0.1, '0.85', 0.9), { in: '0.9', price: '0.85', out: '0.85', atFloor: false })
  t.same(out('1.00', 0.1, '0.95', 0.9), { in: '0.9', price: null, out: '1.00', atFloor: true })
  t.same(out('1.00', 0.1, '0', 0.9), { in: '0.9', price: '0.81', out: '0.81', atFloor: false })
  t.same(out('1.00', 0.1, '0', 1), { in: '0.9', price: '0.9', out: '0.9', atFloor: false })
})

t.test('at factor 1 a price of any height stays as it was', async (t) => {
  for (const price of ['999999.999999', '1000000', '5000000', '100000000', '9007199254.740991'])
    t.same(out(price, 0, '0', 1), { in: price, price: null, out: price, atFloor: false })
  t.equal(out('5000000', 0, '0', 0.9).price, '4500000')
})

t.test('without a fee the value sent is in_ba, and an equal out_ba keeps its text', async (t) => {
  t.same(out('2.5E0', 0, '0', 1), { in: '2.5', price: null, out: '2.5', atFloor: false })
  t.same(out('1.00', 0, '1', 0.9), { in: '1.00', price: null, out: '1.00', atFloor: true })
  t.same(out('0.0000001', 0, '0', 0.7).price, null)
  t.same(out('20000000000000000000', 0, '0', 0.9).price, '18000000000000000000')
  t.same(out('2', 0, '0.5', 0.9).price, '1.8')
})

t.test('a floor of many digits is never crossed', async (t) => {
  t.equal(out('1', 0, '0.8500001', 0.7).price, '0.850001')
  t.equal(out('1', 0, '0.30000000000000004', 0.2).price, '0.300001')
  // more digits than a double holds
  t.equal(out('1', 0, '0.8500000000000000000001', 0.7).price, '0.850001')
  t.equal(out('1', 0.1, '0.8500000000000000000001', 0.7).price, '0.850001')
  t.equal(out('0.85000011', 0, '0.8500001', 0.7).price, null)
  t.equal(out('0.9444445555', 0.1, '0.85000009', 1).price, '0.85000009995')
})

const price = fc
  .tuple(
    fc.integer({ min: 0, max: 99999 }),
    fc.stringMatching(/^\d{0,9}$/),
    fc.integer({ min: -3, max: 3 }),
  )
  .map(
    ([integer, fraction, exponent]) =>
      `${integer}${fraction === '' ? '' : `.${fraction}`}${exponent === 0 ? '' : `e${exponent}`}`,
  )
  .filter((text) => Number(text) > 0)

t.test('out_ba lies between floor and in_ba, with at most six digits', async () => {
  fc.assert(
    fc.property(
      price,
      fc.constantFrom(0, 0.05, 0.1, 0.15, 0.333),
      fc.double({ min: 0, max: 1.2, noNaN: true }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      (text, fee, floorShare, factor) => {
        const floor = Number((Number(text) * floorShare).toPrecision(5))
        const money = amounts(text, Number(text), floor, undefined, keptShareOf(fee))
        if (money.atFloor) return
        const lower = applyFactor(money, factor)
        if (lower === null) return
        if (compare(decimal(lower)!, decimal(String(floor))!) < 0)
          throw new Error(`${lower} is below the floor ${floor}`)
        if (compare(decimal(lower)!, decimal(money.inText)!) > 0)
          throw new Error(`${lower} is above in_ba`)
        const digits = lower.split('.')[1]?.length ?? 0
        if (digits > 6 && lower !== money.inText) throw new Error(`${lower} has ${digits} digits`)
      },
    ),
    { numRuns: 3000 },
  )
})

t.test('both ways to lower a price agree', async () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 99_999_999 }),
      fc.integer({ min: 1, max: 1000 }),
      (micros, mills) => {
        const text = microsText(micros)
        const fast = amounts(text, Number(text), 0, undefined, null)
        const exact = amounts(`${text}e0`, Number(text), 0, undefined, null)
        if (applyFactor(fast, mills / 1000) !== applyFactor(exact, mills / 1000))
          throw new Error(`${text} * ${mills / 1000}`)
      },
    ),
    { numRuns: 3000 },
  )
})

t.test('short texts are read as millionths exactly', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 40 }), (micros) => {
      const text = microsText(micros)
      if (text.length <= 15 && shortMicros(text) !== micros) throw new Error(text)
      if (decimalText(decimal(text)!) !== text) throw new Error(text)
    }),
  )
})

t.test('a floor of many digits is compared and kept exactly', async () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3_000_000 }),
      fc.integer({ min: -2, max: 2 }),
      fc.stringMatching(/^\d{1,14}$/),
      fc.integer({ min: 1, max: 1000 }),
      (micros, below, digits, mills) => {
        const text = microsText(micros)
        const total = Math.max(0, micros + below)
        const floor = `${Math.floor(total / 1e6)}.${String(total % 1e6).padStart(6, '0')}${digits}`
        const fast = amounts(text, Number(text), Number(floor), floor, null)
        const exact = amounts(`${text}e0`, Number(text), Number(floor), floor, null)
        if (fast.atFloor !== exact.atFloor) throw new Error(`${text} at the floor ${floor}`)
        if (fast.atFloor) return
        if (applyFactor(fast, mills / 1000) !== applyFactor(exact, mills / 1000))
          throw new Error(`${text} * ${mills / 1000}, floor ${floor}`)
      },
    ),
    { numRuns: 3000 },
  )
})
