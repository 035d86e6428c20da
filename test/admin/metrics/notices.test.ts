import { Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { exposition } from '../../../admin/http/exposition.ts'
import { ImpressionCounters, TopNames } from '../../../admin/impressions/counters.ts'
import { armPairOf } from '../../../admin/metrics/comparison.ts'
import { opdMetrics } from '../../../admin/metrics/registry.ts'
import { metricsOf } from '../../../opd/base/metrics.ts'
import { EngineStats, ModeStats } from '../../../opd/pricing/stats.ts'
import { keptWins, uplift } from '../../../opd/shared/confidence.ts'

t.test('the 200 busiest names have counters, the rest is other, and nothing is lost', async (t) => {
  const names = new TopNames(() => 200)
  for (let index = 0; index < 5000; index++) names.countName('acme', 'revenue', `p${index}`)
  for (let round = 0; round < 50; round++) names.countName('acme', 'revenue', 'late-but-busy')
  const sum = () => [...names.samples()].reduce((total, { value }) => total + value, 0)
  t.equal([...names.samples()].length, 201)
  t.equal(sum(), 5050)
  names.countName('acme', 'revenue', 'late-but-busy')
  const samples = [...names.samples()]
  t.equal(samples.length, 201)
  t.equal(sum(), 5051)
  t.match(
    samples.find(({ name }) => name === 'late-but-busy'),
    { value: 1 },
  )
})

t.test('10,000 names of all suppliers have counters, the busiest suppliers first', async (t) => {
  const names = new TopNames(() => 200)
  const count = (rounds: number) => {
    for (let ssp = 0; ssp < 120; ssp++)
      for (let index = 0; index < 150; index++)
        for (let round = 0; round < rounds * (ssp < 60 ? 1 : 2); round++)
          names.countName(`s${ssp}`, 'revenue', `p${index}`)
  }
  count(1)
  const first = [...names.samples()]
  t.equal(first.filter(({ name }) => name !== 'other').length, 10_000)
  t.equal(
    first.filter(({ ssp, name }) => Number(ssp.slice(1)) >= 60 && name !== 'other').length,
    9000,
  )
  count(1)
  const sum = [...names.samples()].reduce((total, { value }) => total + value, 0)
  t.equal(sum, 2 * 150 * 180)
})

t.test('other never falls, whoever comes and goes', async (t) => {
  const names = new TopNames(() => 200)
  let before = 0
  for (let round = 0; round < 40; round++) {
    for (let index = 0; index < 600; index++)
      names.countName('a', 'revenue', `p${round % 3}-${index % 250}`)
    const other = [...names.samples()].find(({ name }) => name === 'other')?.value ?? 0
    if (other < before) t.fail(`${other} after ${before}`)
    before = other
  }
  t.ok(before > 0)
})

t.test('kept win rate and uplift with their bounds', async (t) => {
  const stats = new ModeStats()
  for (let index = 0; index < 10_000; index++) {
    const arm = index % 10 === 0 ? 'holdout' : 'treated'
    stats.countPriced(arm, 1, arm === 'holdout' ? 1 : 0.9)
    const wins = arm === 'holdout' ? index % 20 === 0 : index % 100 < 48
    if (!wins) continue
    stats.countWin(arm)
    stats.countMoney(arm, arm === 'holdout' ? 1 : 0.9, arm === 'holdout' ? 0 : 0.1)
  }
  const { holdout, optimised } = armPairOf(stats)
  const [kept, gain] = [keptWins(optimised, holdout), uplift(optimised, holdout)]
  const rate = optimised.wins / optimised.bids / (holdout.wins / holdout.bids)
  t.equal(kept?.at, rate)
  t.ok(kept !== null && kept.lower < rate && rate < kept.upper)
  t.ok(gain !== null && gain.lower > 0 && Math.abs(gain.at - 0.0478) < 0.005)
})

t.test('each series exists once, and an event that never happened has no series', async (t) => {
  const registry = new Registry()
  const stats = new EngineStats()
  for (const id of ['a', 'b']) stats.supplierStats(id).modes.revenue.configured = true
  stats.supplierStats('a').modes.revenue.countPriced('treated', 2, 1.9)
  opdMetrics(registry, {
    stats,
    counters: new ImpressionCounters(),
    kept: () => [],
    invalid: () => [{ ssp: 'a', invalid: true }],
    bidLog: { stats: { entries: 0, bytes: 0, evicted: 0, expired: 0 } },
    model: () => ({ version: 1, ageSeconds: 0 }),
  })
  const text = await registry.metrics()
  const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  const names = series.map((line) => line.slice(0, line.lastIndexOf(' ')))
  t.equal(new Set(names).size, names.length)
  t.match(text, /^bidweir_bids_total\{ssp="a",mode="revenue",reason="treated"\} 1$/m)
  t.notMatch(text, /reason="holdout"|ssp="b"/)
  t.match(text, /^bidweir_opd_config_invalid\{ssp="a"\} 1$/m)
  t.notMatch(text, /NaN|undefined/)
})

const idle = {
  kept: () => [],
  invalid: () => [],
  bidLog: { stats: { entries: 0, bytes: 0, evicted: 0, expired: 0 } },
  model: () => ({ version: 1, ageSeconds: 0 }),
}
const linesOf = (text: string) => text.split('\n').filter((line) => /^[^#]/.test(line))

t.test(
  'a publisher whose name is other, or has a line break, makes no second series',
  async (t) => {
    const registry = new Registry()
    const counters = new ImpressionCounters()
    const odd = ['other', 'other', '', 'unknown', 'a"b\\c\nd', 'a\rb', 'a\\u{d}b', 'a\u2028b']
    for (const name of odd) counters.publishers.countName('a', 'revenue', name)
    for (let index = 0; index < 300; index++)
      counters.publishers.countName('a', 'revenue', `p${index}`)
    opdMetrics(registry, { stats: new EngineStats(), counters, ...idle })
    const text = (await exposition(() => metricsOf(registry))()).toString()
    const bidweirLines = linesOf(text).filter((line) => line.startsWith('bidweir_publisher'))
    t.equal(
      new Set(bidweirLines.map((line) => line.slice(0, line.lastIndexOf(' ')))).size,
      bidweirLines.length,
    )
    t.equal(
      bidweirLines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0),
      308,
    )
    t.match(text, 'a\\\\u{d}b"} 2', 'a carriage return is shown as its escape')
    t.notMatch(text, /[\r\u2028]/)
  },
)

t.test(
  'a scrape in slices has the text of prom-client, and the name of each counter ends in _total',
  async (t) => {
    const registry = new Registry()
    const stats = new EngineStats()
    const counters = new ImpressionCounters()
    new Histogram({ name: 'x_seconds', help: 'a\\b\nc', labelNames: ['l'], registers: [registry] })
      .labels('"\\\n')
      .observe(0.3)
    new Gauge({ name: 'y', help: 'y', registers: [registry] }).set(Number.POSITIVE_INFINITY)
    stats.supplierStats('a').modes.revenue.countPriced('treated', 2, 1.9)
    counters.countNotice('a', 'revenue', 'attributed', 'context', 'win')
    counters.domains.countName('a', 'revenue', 'd.example')
    opdMetrics(registry, { stats, counters, ...idle })
    const text = (await exposition(() => metricsOf(registry))()).toString()
    t.same(linesOf(text), linesOf(await registry.metrics()))
    const counterNames = [...text.matchAll(/^# TYPE (\S+) counter$/gm)].map(([, name]) => name)
    t.ok(counterNames.length > 15)
    t.same(
      counterNames.filter((name) => !name!.endsWith('_total')),
      [],
    )
  },
)

t.test(
  'the names of many suppliers are scraped in turns, and received adds up in each',
  async (t) => {
    const registry = new Registry()
    const counters = new ImpressionCounters()
    const notice = (ssp: string) => {
      counters.countNotice(ssp, 'revenue', 'attributed', 'context', 'win')
      for (let index = 0; index < 150; index++)
        counters.publishers.countName(ssp, 'revenue', `p${index}`)
    }
    for (let ssp = 0; ssp < 60; ssp++) notice(`s${ssp}`)
    opdMetrics(registry, { stats: new EngineStats(), counters, ...idle })
    const scrape = exposition(() => metricsOf(registry))
    let turns = 0
    let running = true
    const traffic = () => {
      turns++
      counters.countNotice('s1', 'revenue', 'duplicate', 'context', 'win')
      if (running) setImmediate(traffic)
    }
    traffic()
    const texts = await Promise.all([scrape(), scrape(), scrape()])
    running = false
    t.ok(turns > 3, 'others had their turns')
    t.equal(texts[0], texts[2], 'scrapes that come together share one')
    const sum = (family: string) =>
      linesOf(texts[0]!.toString())
        .filter((line) => line.startsWith(family))
        .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
    t.equal(sum('bidweir_impressions_received_total'), sum('bidweir_impressions_total'))
  },
)

t.test('a scrape of 3,000 suppliers is looked after at least every 64 samples', async (t) => {
  const registry = new Registry()
  const stats = new EngineStats()
  let work = 0
  for (let n = 0; n < 3000; n++) {
    const { revenue } = stats.supplierStats(`s${n}`).modes
    // 1,000 with bids; of the others nothing is shown, and looking at them is work all the same
    if (n % 3 === 0) revenue.countPriced('treated', 2, 1.9)
    const { arms } = revenue
    const get = () => {
      work++
      return arms
    }
    Object.defineProperty(revenue, 'arms', { get })
  }
  opdMetrics(registry, { stats, counters: new ImpressionCounters(), ...idle })
  let most = 0
  const slices = {
    next() {
      most = Math.max(most, work)
      work = 0
      return undefined
    },
  }
  const text = (
    await exposition(
      () => metricsOf(registry),
      undefined,
      () => slices,
    )()
  ).toString()
  t.equal(linesOf(text).filter((line) => line.startsWith('bidweir_bids_total')).length, 1000)
  t.equal(linesOf(text).filter((line) => line.startsWith('bidweir_opd_theta')).length, 300)
  // 64 integrations, a mode each, which are looked at up to 20 times
  t.ok(most <= 64 * 20, `${most} looks between two slices`)
})
