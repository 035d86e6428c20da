/** The engine: integrations bound at configuration, answers rewritten, notices traced, wins taught. */
import { hkdfSync } from 'node:crypto'
import type { Integration } from '../config.ts'
import type { BidLog, DecisionSink, Learners, Log, SharedBidLog } from '../ports.ts'
import { armRules } from '../pricing/arms.ts'
import { createContextCodec, Nonces } from '../pricing/context.ts'
import { pricing } from '../pricing/pricing.ts'
import type { BidReason, PriceBid } from '../pricing/types.ts'
import { rewriteInTurns } from '../rewrite/rewrite.ts'
import { rateOf } from '../shared/rates.ts'
import { standalone } from '../standalone/standalone.ts'
import { createLogs } from './decision-lookup.ts'
import { createFaultLog, type FaultPlace } from './fault-log.ts'
import { EngineStats, type SupplierStats } from './stats.ts'
import type {
  AnswerToRewrite,
  DecisionRecord,
  Engine,
  EngineConfig,
  EngineSettings,
  RewrittenAnswer,
  StandaloneAnswer,
  StandaloneEntry,
  Traced,
  Turn,
  WonMoney,
} from './types.ts'

interface EngineDeps {
  learners: Learners
  bidLog: BidLog
  shared: SharedBidLog | null
  sink: DecisionSink | null
  log: Log
  /** Milliseconds since the epoch. */
  now: () => number
  random: () => number
}

interface BidweirEngine extends Engine {
  readonly stats: EngineStats
  /** The configuration of one supplier, null where the file names none. */
  integration(id: string): Integration | null
}

/** One integration with all that its answers need. */
interface Bound {
  integration: Integration
  stats: SupplierStats
  reads: boolean
  price: PriceBid
  onBid: (reason: BidReason) => void
}

const neverPrices: PriceBid = ({ priceText }) => ({
  priceText: null,
  inText: priceText,
  outText: priceText,
  context: '',
  mode: '',
})

export function createEngine(initial: EngineConfig, deps: EngineDeps): BidweirEngine {
  const { now, learners } = deps
  const stats = new EngineStats()
  const fault = createFaultLog(stats.faults, deps.log, now)
  const logs = createLogs(deps.bidLog, deps.shared, fault)
  const nonces = new Nonces()
  /** Integrations whose standalone calls have come without `imp`. */
  const withoutImp = new Set<string>()
  let config: EngineSettings = initial
  const bound = new Map<string, Bound>()
  let holds: ReadonlySet<string> = new Set()
  let holdsAll = false
  const held = (supplier: string) => holdsAll || holds.has(supplier)

  const keyed = (settings: EngineSettings) => {
    const secret = settings.keys[0]?.secret ?? new Uint8Array(32)
    const seeds = Buffer.from(hkdfSync('sha256', secret, '', 'bidweir shares v1', 12))
    return {
      codec: createContextCodec(settings.keys, settings.contextTtl, nonces),
      seed: seeds.readInt32BE(0),
      auctionSalt: seeds.toString('hex', 4),
    }
  }
  const pricingDeps = { ...deps, ...keyed(initial), held, fault }

  function bind(integration: Integration): Bound {
    const { opd } = integration
    const counters = stats.of(integration.id)
    if (opd === null || opd === 'invalid' || opd.enabled === false)
      return { integration, stats: counters, reads: false, price: neverPrices, onBid: () => {} }
    const mode = counters.modes[opd.mode]
    mode.configured = true
    return {
      integration,
      stats: counters,
      reads: true,
      price: pricing(integration, pricingDeps, mode),
      onBid: (reason) => mode.leftAlone(reason),
    }
  }

  const asItCame = (body: Buffer, unreadable: boolean): RewrittenAnswer => ({
    body,
    reason: 'malformed',
    removed: 0,
    left: 0,
    unreadable,
  })

  function* rewriteAnswer(answer: AnswerToRewrite): Generator<Turn, RewrittenAnswer> {
    const { supplier, body, inactiveSeats } = answer
    const cuts = inactiveSeats.size > 0
    const own = bound.get(supplier) ?? {
      integration: { id: supplier, opd: null, notices: 'win' as const },
      stats: null,
      price: neverPrices,
      onBid: () => {},
    }
    let rewritten: RewrittenAnswer
    try {
      rewritten = yield* rewriteInTurns({
        body,
        request: answer.request,
        integration: own.integration,
        inactiveSeats,
        rates: config.rates,
        base: config.base,
        price: own.price,
        onBid: own.onBid,
        cutOnly: answer.cutOnly ?? false,
      })
    } catch (error) {
      // a fault of ours costs the optimisation, never the answer; seats that must be cut win over it
      fault('rewrite', error, supplier)
      if (own.stats !== null) own.stats.faults++
      rewritten = asItCame(body, cuts)
    }
    if (rewritten.reason !== null) own.stats?.untouched(rewritten.reason)
    return rewritten
  }

  function wholly(answer: AnswerToRewrite): RewrittenAnswer {
    const turns = rewriteAnswer(answer)
    for (;;) {
      const turn = turns.next()
      if (turn.done) return turn.value
    }
  }

  async function trace(...[notice, opens]: Parameters<Engine['trace']>): Promise<Traced> {
    const at = now()
    const { state, record } = pricingDeps.codec.decode(notice.svcOpd, notice.bidId, at)
    const late = (decided: DecisionRecord) => decided.at < at - config.attributionWindow
    if (state === 'valid' && record !== null)
      return {
        context: state,
        by: 'context',
        record: await logs.withFeatures(record),
        ambiguous: false,
        late: late(record),
      }
    const earliest = at - config.contextTtl
    const found =
      opens?.(state) === false ? [] : await logs.latest(notice.bidId, notice.ssp, earliest)
    const [only] = found
    if (only === undefined || found.length > 1)
      return { context: state, by: null, record: null, ambiguous: found.length > 1, late: false }
    return { context: state, by: 'bid_log', record: only, ambiguous: false, late: late(only) }
  }

  const rate = (currency: string) => rateOf(currency, config.rates, config.base)

  function counted(record: DecisionRecord, won: boolean, money: WonMoney | null): void {
    const { arm, mode, supplier } = record
    const perBase = rate(record.currency)
    if (perBase === null || !armRules[arm].money) return
    const own = stats.of(supplier).modes[mode]
    if (won) own.won(arm)
    if (money !== null) own.paid(arm, money.cleared / perBase, money.margin / perBase)
  }

  function taught(record: DecisionRecord, cleared: number, late: boolean): void {
    const perBase = rate(record.currency)
    if (!armRules[record.arm].money) return
    const win = {
      time: now(),
      id: record.id,
      ssp: record.supplier,
      // without a rate in its own currency, as its decision stands there
      cleared: cleared / (perBase ?? 1),
      late,
    }
    guarded('decision_log', record, () => deps.sink?.won(win))
    if (perBase === null) return
    if (!record.teaches || record.features.length === 0) return
    // above out_ba it is a win and no saving: the learner sees to that, and its guards to those that do it often
    guarded('training', record, () =>
      learners.of(record.mode).win(record.features, cleared / perBase, now()),
    )
  }

  function withdrawn(record: DecisionRecord): void {
    const { id, supplier: ssp } = record
    if (armRules[record.arm].money)
      guarded('decision_log', record, () => deps.sink?.withdrawn({ time: now(), id, ssp }))
    if (!record.teaches || record.features.length === 0) return
    guarded('training', record, () => learners.of(record.mode).withdraw(record.features, now()))
  }

  function warnOfNoImp(ssp: string): void {
    if (withoutImp.has(ssp)) return
    withoutImp.add(ssp)
    deps.log.warn({ ssp }, 'a standalone call brought bids without imp: floor 0; said once')
  }

  function guarded(place: FaultPlace, { supplier }: DecisionRecord, work: () => void): void {
    try {
      work()
    } catch (error) {
      fault(place, error, supplier)
    }
  }

  /** Faults in here are bugs: the caller gets an error without a word of the body, which the API answers with 500. */
  function priceAlone(supplier: string, own: Bound, body: Buffer): StandaloneAnswer {
    const failed = (error: unknown) => {
      fault('standalone', error, supplier)
      return new Error('a standalone call failed')
    }
    function* watched(entries: Iterable<StandaloneEntry>) {
      try {
        yield* entries
      } catch (error) {
        throw failed(error)
      }
    }
    try {
      const answer = standalone(body, own.integration, config.rates, config.base, own.price)
      if (!answer.ok) return answer
      if (answer.withoutImp) warnOfNoImp(supplier)
      return { ...answer, entries: watched(answer.entries) }
    } catch (error) {
      throw failed(error)
    }
  }

  for (const each of initial.integrations) bound.set(each.id, bind(each))
  return {
    stats,
    configure(next) {
      config = next
      Object.assign(pricingDeps, keyed(next))
    },
    setIntegration: (integration) => void bound.set(integration.id, bind(integration)),
    removeIntegration: (supplier) => void bound.delete(supplier),
    integration: (id) => bound.get(id)?.integration ?? null,
    setHolds(suppliers) {
      holds = suppliers
      holdsAll = suppliers.has('*')
    },
    rewrite: wholly,
    rewriteInTurns: rewriteAnswer,
    untouched: (supplier, reason) => bound.get(supplier)?.stats.untouched(reason),
    reads: (supplier) => bound.get(supplier)?.reads ?? false,
    unread(supplier) {
      const own = bound.get(supplier)
      own?.stats.untouched(own.integration.opd === 'invalid' ? 'invalid_config' : 'disabled')
    },
    standalone(supplier, body) {
      const own = bound.get(supplier)
      if (own === undefined) return { ok: false, status: 404, faults: [] }
      if (!own.reads) return { ok: false, status: 403, faults: [] }
      return priceAlone(supplier, own, body)
    },
    trace,
    explain(svcOpd, bidId) {
      const at = now()
      const { state, record } = pricingDeps.codec.decode(svcOpd, bidId, at)
      const late = record !== null && record.at < at - config.attributionWindow
      return { context: state, record, late }
    },
    rate,
    counted,
    taught,
    withdrawn,
  }
}
