import fc from 'fast-check'
import t from 'tap'
import { ImpressionCounters } from '../../../admin/impressions/counters.ts'
import { Notices } from '../../../admin/impressions/process.ts'
import { auction, hour, testEngine } from '../../support/engine.ts'
import { integration, memoryLedger } from '../../support/opd-doubles.ts'

const suppliers = ['acme', 'other', 'balanced'] as const
const caller = { subject: 'u', account: '*', roles: new Set(['api']) }

/** One thing that may happen, in any order and at once. */
const step = fc.oneof(
  fc.record({ kind: fc.constant('bid' as const), id: fc.nat(3), supplier: fc.nat(2) }),
  fc.record({
    kind: fc.constant('notice' as const),
    /** Which of the bids made so far, or none of them. */
    bidIndex: fc.nat(12),
    context: fc.constantFrom('own', 'none', 'forged', 'unexpanded'),
    event: fc.constantFrom('win' as const, 'billing' as const),
    ssp: fc.boolean(),
    token: fc.boolean(),
    times: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ kind: fc.constant('restart' as const) }),
  fc.record({ kind: fc.constant('later' as const), minutes: fc.integer({ min: 1, max: 3000 }) }),
  fc.record({ kind: fc.constant('store' as const), fails: fc.boolean() }),
)

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

/** A bare notice at a node that does not have the decision, then the same win with its context. */
const notice = {
  kind: 'notice',
  bidIndex: 0,
  event: 'win',
  ssp: false,
  times: 1,
  token: false,
} as const
const replacing: Step[] = [
  { kind: 'bid', id: 0, supplier: 0 },
  { kind: 'restart' },
  { ...notice, context: 'none' },
  { ...notice, context: 'own' },
]

t.test(
  'whatever happens, a decision is one win at most and every notice is accounted for',
  async (t) => {
    let notices = 0
    let replaced = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
        const world = testEngine({
          integrations: suppliers.map((id) =>
            integration(id, id === 'balanced' ? { mode: 'margin' } : {}, 'both'),
          ),
        })
        const ledger = memoryLedger()
        const counters = new ImpressionCounters()
        const start = (engine: typeof world.engine) =>
          new Notices({
            engine,
            ledger,
            auth: 'none',
            contextTtl: () => 48 * hour,
            integration: engine.integration,
            account: () => undefined,
            now: world.now,
            alert: () => {},
            onDuplicate: () => {},
            counters,
          })
        let { engine } = world
        let processor = start(engine)
        const bids: { id: string; supplier: string; svcOpd: string }[] = []
        let answered = 0
        /** Decisions whose wins came with their own contexts, by event and bid id. */
        const reported = new Map<string, Set<string>>()
        for (const step of steps) {
          world.clock.now++
          if (step.kind === 'bid') {
            const [id, supplier] = [`b${step.id}`, suppliers[step.supplier]!]
            bids.push({ id, supplier, svcOpd: auction(engine, { id, supplier }).svcOpd })
          } else if (step.kind === 'restart') {
            engine = world.node()
            processor = start(engine)
          } else if (step.kind === 'later') world.clock.now += step.minutes * 60_000
          else if (step.kind === 'store') ledger.fails = step.fails
          else {
            const bid = bids[step.bidIndex] ?? { id: 'ghost', supplier: 'acme', svcOpd: 'forged' }
            const contexts = { own: bid.svcOpd, none: undefined, forged: 'x', unexpanded: '${X}' }
            const notice = {
              bidId: bid.id,
              price: '0.9',
              svcOpd: contexts[step.context as keyof typeof contexts],
              ssp: step.ssp ? bid.supplier : undefined,
              event: step.event,
              priceDsp: undefined,
            }
            const sent = Array.from({ length: step.times }, () =>
              processor.process(notice, step.token ? caller : null),
            )
            const key = `${step.event} ${bid.id}`
            const { context, record } = engine.explain(notice.svcOpd ?? '', bid.id)
            for (const result of await Promise.allSettled(sent)) {
              if (result.status !== 'fulfilled') continue
              answered++
              if (context === 'valid')
                reported.set(key, (reported.get(key) ?? new Set()).add(record!.id))
            }
          }
        }
        notices += answered
        const counted = [...counters.impressions.values()].reduce((sum, count) => sum + count, 0)
        if (counters.received !== answered || counted !== answered)
          throw new Error(`${answered} answered, ${counters.received} received, ${counted} counted`)
        const countOf = (status: string) =>
          [...counters.impressions]
            .filter(([key]) => key.split('\t')[2] === status)
            .reduce((sum, [, count]) => sum + count, 0)
        const rows = (status: string) => ledger.rows.filter((row) => row.status === status)
        if (countOf('attributed') !== rows('attributed').length)
          throw new Error('attributed rows differ from the counter')
        if (countOf('unattributed') !== rows('unattributed').length + ledger.replaced)
          throw new Error('unattributed rows differ from the counter less what was replaced')
        replaced += ledger.replaced
        // a win whose context came has a row of its own, whatever came bare before it
        for (const [key, won] of reported)
          for (const id of won)
            if (
              !ledger.rows.some(({ event, decision }) => key.startsWith(event) && decision === id)
            )
              throw new Error(`the win ${key} is lost`)
        const wins = world.learner.updates.filter(({ kind }) => kind === 'win')
        if (new Set(wins.map(({ features }) => features)).size !== wins.length)
          throw new Error('the model learned twice from a decision')
      }),
      { numRuns: 300, examples: [[replacing]] },
    )
    t.ok(notices > 0)
    t.ok(replaced > 0)
  },
)
