import { createHash } from 'node:crypto'
import t from 'tap'
import { createContextCodec, Nonces } from '../../opd/context.ts'
import { ModeStats } from '../../opd/engine/stats.ts'
import type { DecisionEntry } from '../../opd/ports.ts'
import { pricing } from '../../opd/pricing.ts'
import { createBidLog } from '../../opd/state/bidlog.ts'
import { keys } from '../support/engine.ts'
import { bid, fixedLearner, integration } from '../support/opd.ts'

t.test('the decision log knows no name, and a test is not in it', async (t) => {
  const entries: DecisionEntry[] = []
  const now = () => 1_800_000_000_000
  const deps = {
    learners: { of: () => fixedLearner(0.9), version: () => 3 },
    bidLog: createBidLog({ ttl: 1000, now }),
    shared: null,
    sink: { decided: (entry: DecisionEntry) => void entries.push(entry), won: () => {} },
    now,
    random: () => 0,
    codec: createContextCodec(keys, 1000, new Nonces()),
    seed: 1,
    auctionSalt: 'salt',
    held: () => false,
  }
  const price = pricing(integration('acme'), deps, new ModeStats())
  price(bid({ floor: 0.4, rate: 2, features: { publisher: 'pub-1', country: 'DEU' } }))
  price(bid({ test: true }))
  const publisher = createHash('sha256').update('pub-1').digest('hex').slice(0, 16)
  t.equal(entries.length, 1)
  t.match(entries[0], {
    ssp: 'acme',
    arm: 'treated',
    in: 0.5,
    floor: 0.2,
    out: 0.45,
    propensity: 0.5,
    winIn: 0.4,
    winOut: 0.25,
    model: 3,
    publisher,
    domain: null,
    features: { country: 'DEU' },
  })
  t.notOk(JSON.stringify(entries).includes('pub-1'))
})
