/** Replay: its estimates of a policy other than the logged one are right, and results without evidence are not reported. */
import t from 'tap'
import { createLearner, type Learner } from '../../../opd/learner.ts'
import { parseLine } from '../../../opd/replay/line.ts'
import { Replay } from '../../../opd/replay/replay.ts'
import { chance, type Market, marketLines, spelled } from '../../support/decision-log.ts'

const policy = { minWinRate: 0, minSpend: 0, explore: 0, minFactor: 0.5 }

/** Always the same factor, and chances that the truth is multiplied by. */
function constant(factor: number, wrong: number): Learner {
  return {
    decide: ({ inBa }) => ({
      outBa: inBa * factor,
      factor,
      arm: 'treated',
      propensity: 1,
      winIn: chance(1) * wrong,
      winOut: chance(factor) * wrong,
    }),
    expose: () => new Uint8Array(1),
    win() {},
    lose() {},
    withdraw() {},
    refitJob: () => null,
    applyRefit() {},
    advance() {},
    delta: () => new Uint8Array(),
    merge() {},
    snapshot: () => new Uint8Array(),
    chance: ({ inBa }, price) => chance(price / inBa) * wrong,
  }
}

function replayOf(market: Market, create: () => Learner = () => createLearner({}), more = {}) {
  const replay = new Replay({
    attributionWindow: 60_000,
    policyOf: (_ssp, mode) => ({ mode, from: 'file', policy: { ...policy, ...more } }),
    create,
  })
  for (const line of marketLines(market)) replay.feed(line)
  return replay.report()
}

const within = (estimate: { low: number; high: number } | null, truth: number) =>
  estimate !== null && estimate.low <= truth && truth <= estimate.high

const seeds = [1, 2, 3, 4, 5]

t.test('another factor than the logged one: the truth lies within the intervals', (t) => {
  for (const [factor, wrong] of [
    [0.85, 1],
    [0.85, 0.6],
    [0.95, 0.6],
    [1, 1],
  ] as const) {
    let covered = 0
    let widest = 0
    for (const seed of seeds) {
      const { integrations } = replayOf({ bids: 20_000, seed }, () => constant(factor, wrong))
      const [{ status, doubly_robust: robust, slice }] = integrations as [(typeof integrations)[0]]
      t.equal(status, 'verified', `${slice.effective} effective`)
      const truth = chance(factor)
      const kept = truth / chance(1)
      const checks = [
        within(robust!.win_rate, truth),
        within(robust!.kept_wins, kept),
        within(robust!.kept_spend, kept),
        Math.abs(robust!.margin_share!.value - (1 - factor)) < 1e-9,
      ]
      covered += checks.filter(Boolean).length
      widest = Math.max(widest, robust!.win_rate!.high - robust!.win_rate!.low)
    }
    // 95 % intervals: of 20 one or two may miss.
    t.ok(covered >= 18, `${covered} of 20 at factor ${factor}, model times ${wrong}`)
    t.ok(widest < 0.12, `${widest}`)
  }
  t.end()
})

t.test('IPS needs no model at all', (t) => {
  let covered = 0
  for (const seed of seeds) {
    const { integrations } = replayOf({ bids: 20_000, seed }, () => constant(0.85, 0.2))
    const { ips } = integrations[0]!
    const inBa = 2.5
    covered += [
      within(ips!.win_rate, chance(0.85)),
      within(ips!.kept_wins, chance(0.85) / chance(1)),
      within(ips!.margin_per_bid, chance(0.85) * 0.15 * inBa),
      Math.abs(ips!.margin_share!.value - 0.15) < 1e-9,
    ].filter(Boolean).length
  }
  t.ok(covered >= 18, `${covered} of 20`)
  t.end()
})

t.test('where the second price is paid a lower bid saves little', (t) => {
  const { integrations } = replayOf({ bids: 30_000, clears: 0.6 }, () => constant(0.85, 1))
  const { doubly_robust: robust, model, logged } = integrations[0]!
  t.ok(within(robust!.margin_share, 0.4), JSON.stringify(robust))
  t.ok(Math.abs(model.margin_share! - 0.4) < 0.05, 'the model learns what is cleared')
  t.ok(Math.abs(logged.margin_share! - 0.4) < 1e-6)
  t.end()
})

t.test('what the slice cannot carry is model-based, unverified', (t) => {
  const cases: [string, Market, number, RegExp][] = [
    ['shadow', { bids: 3000, shadow: true }, 0.9, /nothing was explored/],
    ['explore 0', { bids: 3000, explore: 0 }, 0.9, /nothing was explored/],
    ['a small slice', { bids: 3000, explore: 0.01 }, 0.9, /count as \d+ effective samples/],
    ['prices deeper than any', { bids: 9000 }, 0.6, /are outside of what was explored/],
  ]
  for (const [name, market, factor, why] of cases) {
    const { total } = replayOf(market, () => constant(factor, 1))
    t.equal(total.status, 'model-based, unverified', name)
    t.match(total.why.join(), why)
    t.equal(total.ips, null)
    t.equal(total.doubly_robust, null)
    t.ok(Math.abs(total.model.win_rate! - chance(factor)) < 1e-9, 'the model is still printed')
  }
  const { total } = replayOf({ bids: 20_000, holdout: 0 }, () => constant(0.9, 1))
  t.equal(total.status, 'verified')
  t.match(total.why.join(), /kept wins and spend are unverified/)
  t.equal(total.doubly_robust!.kept_wins, null)
  t.end()
})

t.test('the learner runs over the log and learns from what was really won', (t) => {
  const { integrations, total, counts } = replayOf({ bids: 20_000 }, undefined, {
    minWinRate: 0.9,
    minSpend: 0.9,
    minFactor: 0.7,
  })
  const [{ model, doubly_robust: robust, logged }] = integrations as [(typeof integrations)[0]]
  t.ok(model.margin_per_bid! > 0)
  t.ok(model.mean_factor! < 1)
  t.ok(model.kept_wins! > 0.85 && model.kept_wins! <= 1)
  t.ok(
    robust!.kept_wins!.high - robust!.kept_wins!.low < 0.3,
    'and the slice says it within bounds',
  )
  t.ok(Math.abs(logged.kept_wins! - chance(0.9) / chance(1)) < 0.05)
  t.equal(counts.decisions, 20_000)
  t.equal(total.bids + counts.open, 20_000)
  t.ok(counts.open < 300, 'what is too young at the end is left out')
  t.equal(counts.unmatchedWins, 0)
  t.same(replayOf({ bids: 2000 }), replayOf({ bids: 2000 }), 'one log gives one report')
  t.end()
})

t.test('repeated, withdrawn, early and orphaned lines', (t) => {
  const replay = new Replay({
    attributionWindow: 60_000,
    policyOf: (_ssp, mode) => ({ mode, from: 'default', policy }),
    maxPending: 3,
  })
  const decision = (id: string, arm = 'treated') =>
    replay.feed(
      parseLine(
        `{"time":1,"id":"${id}","ssp":"s","mode":"revenue","arm":"${arm}","propensity":0.9,"in":2,"floor":0,"out":1.8}`,
      ),
    )
  const win = (id: string) =>
    replay.feed(parseLine(`{"time":2,"id":"${id}","won":true,"cleared":"1.8"}`))
  win('a')
  decision('a')
  decision('a')
  win('a')
  decision('b')
  replay.feed(parseLine('{"time":2,"id":"b","withdrawn":true}'))
  decision('c', 'floor')
  win('c')
  win('nobody')
  for (const id of ['d', 'e', 'f']) decision(id)
  win('a')
  const { counts, integrations } = replay.report()
  t.match(counts, { decisions: 6, wins: 2, withdrawn: 1, repeated: 2, unmatchedWins: 2, bad: 0 })
  t.match(integrations[0], { bids: 4, wins: 1, left: { floor: 1 } })
  t.end()
})

t.test('bad lines say why, and nothing that is no number gets in', (t) => {
  const good = {
    time: 1,
    id: 'a',
    ssp: 's',
    mode: 'revenue',
    arm: 'treated',
    propensity: 1,
    in: 2,
    floor: 0,
    out: 2,
  }
  const cases: [string, RegExp][] = [
    ['{', /not JSON/],
    ['[]', /no JSON object/],
    ['null', /no JSON object/],
    [JSON.stringify({ ...good, time: 'now' }), /time is not sound/],
    [JSON.stringify({ ...good, in: 0 }), /in is not sound/],
    [JSON.stringify({ ...good, in: 1e300 }), /in is not sound/],
    [JSON.stringify({ ...good, arm: 'toString' }), /arm is not sound/],
    [JSON.stringify({ ...good, propensity: 0 }), /propensity is not sound/],
    [JSON.stringify({ ...good, mode: undefined }), /mode is missing/],
    ['{"won":true,"id":"a","time":1}', /cleared is no price/],
    ['{"won":true,"id":"a","cleared":1}', /time is not sound/],
    ['{"won":true,"id":7,"time":1,"cleared":1}', /id is not sound/],
  ]
  for (const [text, why] of cases) t.match(parseLine(text), { kind: 'bad', why }, text)
  const odd = parseLine(
    JSON.stringify({ ...good, features: { publisher: 7, country: 'DEU', auction: 9 } }),
  )
  t.same((odd as { features: object }).features, { country: 'DEU' })
  for (const line of marketLines({ bids: 300 })) t.same(parseLine(spelled(line)), line)
  t.end()
})
