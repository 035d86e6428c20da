/** Processes of one node lease tokens from one bucket: together they admit the allotment, whatever the split of the load. */
import t from 'tap'
import { localTokens } from '../../../opd/state/tokens.ts'
import { LeasedBucket } from '../../../proxy/admission/allotment.ts'
import { source } from '../../support/random.ts'

const rate = 300

/** Requests a second that are admitted in each window of 5 s. */
async function admitted(loads: readonly number[], ends = 30_000): Promise<number[]> {
  const random = source(3)
  let now = 0
  const tokens = localTokens(() => now)
  const buckets = loads.map(() => new LeasedBucket('acme', rate, 1 / loads.length))
  const windows: number[] = Array(ends / 5000).fill(0)
  for (; now < ends; now++)
    for (const [index, bucket] of buckets.entries()) {
      if (now % 50 === (index * 17) % 50) {
        const request = bucket.request(now)
        if (request !== null) bucket.granted((await tokens.ask([request]))![0]!, 1 / loads.length)
      }
      let due = loads[index]! / 1000
      while (random() < due--) if (bucket.takeToken(now)) windows[Math.floor(now / 5000)]!++
    }
  return windows.map((count) => count / 5)
}

for (const loads of [
  [400, 400],
  [900, 100],
  [800, 0, 0],
])
  t.test(`loads of ${loads} requests a second`, async (t) => {
    for (const perSecond of (await admitted(loads)).slice(1))
      t.ok(Math.abs(perSecond - rate) <= rate * 0.05, `${perSecond} of ${rate} a second`)
  })

t.test('below the allotment everything is admitted', async (t) => {
  for (const perSecond of (await admitted([180, 40])).slice(1))
    t.ok(Math.abs(perSecond - 220) <= 22, `${perSecond} of 220 a second`)
})

t.test('buckets are by supplier, and what is given back is kept up to the depth', async (t) => {
  const tokens = localTokens(() => 0)
  const request = { rate: 10, depth: 2, arrived: 1 }
  const ask = async (supplier: string, wanted: number) =>
    (await tokens.ask([{ ...request, supplier, wanted }]))![0]!.tokens
  t.same([await ask('a', 5), await ask('a', 1), await ask('b', 1)], [2, 0, 1])
  t.equal(await ask('a', -9), -9)
  t.equal(await ask('a', 9), 2)
})
