/** `GET /api/svc/whatif/`: what other settings would have done with the bids of the last seven days, by replay of the decision log. */
import { access } from 'node:fs/promises'
import * as z from 'zod'
import type { OpdConfig } from '../../opd/config.ts'
import { startInBackground } from '../../opd/state/background-thread.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { BusyError, Problem } from '../http/problem.ts'
import { find, type Suppliers } from '../management/access.ts'
import { day } from '../store/hour.ts'
import type { TriedSettings, WhatIfAnswer, WhatIfFigure, WhatIfJob } from './what-if-replay.ts'

export interface WhatIfDeps extends Suppliers {
  /** The opd block of a supplier; null: OPD is off or its configuration is not valid. */
  activeOpd(ssp: string): OpdConfig | null
  /** The decision log of this node; null: there is none. */
  decisionLog(): { path: string; keep: number } | null
  /** Milliseconds. */
  attributionWindow(): number
  currency(): string
  now(): number
}

const days = 7
/** Of one replay. Its thread is ended in any case some seconds later. */
const limits = { bids: 200_000, ms: 60_000 }
const longest = limits.ms + 15_000
/** Megabytes of the thread's heap: two models, and the bids that wait for their wins. */
const heap = 512

const shareFault = 'must be a number from 0 to 1'
const share = z
  .string()
  .regex(/^(0(\.\d{1,6})?|1(\.0{1,6})?)$/, shareFault)
  .transform(Number)
  .optional()

const querySchema = z.strictObject({
  ssp: z.string().describe('The supplier'),
  min_factor: share.meta({ type: 'number' }).describe('Another minFactor; by default that of now'),
  min_win_rate: share.meta({ type: 'number' }).describe('Another minWinRate'),
  min_spend: share.meta({ type: 'number' }).describe('Another minSpend'),
  share: share.meta({ type: 'number' }).describe('Another share of the auctions'),
})

const number = z.number().nullable()
const figure = z
  .strictObject({
    expected: number.describe('By the model'),
    value: number.describe('Estimated from randomized bids; null: unknown'),
    low: number.describe('Lower end of its 95 % interval'),
    high: number,
  })
  .meta({ id: 'WhatIfFigure' }) satisfies z.ZodType<WhatIfFigure>
const settings = z.strictObject({
  min_factor: z.number(),
  min_win_rate: z.number(),
  min_spend: z.number(),
  share: z.number(),
})
const outcome = z
  .strictObject({
    settings,
    margin: figure.describe('Of all bids of the time, in units of `currency`'),
    kept_wins: figure.describe('Wins of all bids, relative to factor 1'),
    kept_spend: figure,
    win_rate: figure.describe('Of the bids that are priced'),
    mean_factor: number,
    verified: z.boolean().describe('Whether randomized bids verify the expectation of the model'),
    why: z.array(z.string()).describe('Why it is not verified, or only in part'),
  })
  .meta({ id: 'WhatIfOutcome' })
const answerSchema = z
  .strictObject({
    from: number.describe('Time of the first bid, milliseconds since the epoch'),
    to: number,
    bids: z.number(),
    wins: z.number(),
    cut: z.boolean().describe('A limit of bids or of time was reached: later bids were not read'),
    currency: z.string(),
    now: outcome.nullable().describe('With the settings of now; null: no bid in the log'),
    tried: outcome.nullable().describe('With the settings of the call'),
  })
  .meta({ id: 'WhatIf' })
export type WhatIf = z.infer<typeof answerSchema>

const module = new URL(
  import.meta.url.endsWith('.ts') ? './what-if-thread.ts' : './what-if-thread.js',
  import.meta.url,
)

/** One replay on a thread of its own, which ends with it. Rejects if it takes too long. */
function replayed(job: WhatIfJob): Promise<WhatIfAnswer> {
  const worker = startInBackground(module, {
    workerData: job,
    resourceLimits: { maxOldGenerationSizeMb: heap },
  })
  worker.unref()
  const { promise, resolve, reject } = Promise.withResolvers<WhatIfAnswer>()
  const late = setTimeout(() => reject(new BusyError('the replay took too long')), longest)
  worker.once('message', resolve)
  worker.once('error', reject)
  worker.once('exit', () => reject(new BusyError('the replay ended without an answer')))
  return promise.finally(() => {
    clearTimeout(late)
    void worker.terminate()
  })
}

/** The files of the log that exist: the present one, and rotated ones. */
async function filesOf({ path, keep }: { path: string; keep: number }): Promise<string[]> {
  const names = [path, ...Array.from({ length: keep }, (_, n) => `${path}.${n + 1}`)]
  const found = await Promise.all(
    names.map((name) =>
      access(name).then(
        () => name,
        () => null,
      ),
    ),
  )
  return found.filter((name) => name !== null)
}

/** Sums of CPM are for a thousand impressions. */
function inUnits<T extends WhatIfAnswer['now']>(answer: T): T {
  if (answer === null) return answer
  const units = (value: number | null) => (value === null ? null : value / 1000)
  const { expected, value, low, high } = answer.margin
  const margin = {
    ...{ expected: units(expected), value: units(value) },
    ...{ low: units(low), high: units(high) },
  }
  return { ...answer, margin }
}

export function whatIfRoute(deps: WhatIfDeps): Route {
  let busy = false
  return {
    method: 'GET',
    path: '/api/svc/whatif/',
    id: 'whatIf',
    tag: 'reports',
    summary: 'What other settings would have done with the bids of the last seven days',
    description:
      'Replays the decision log of the answering node (`opd.decisionLog`) on a thread of its own: at most 200,000 bids, and one call at a time for at most a minute. 404 `no_decision_log` without a log. Nothing is changed.',
    role: 'viewer',
    query: querySchema,
    answers: { 200: jsonAnswer('Beside each other, with 95 % intervals', answerSchema) },
    problems: [404, 503],
    async handler(request) {
      const { ssp, ...asked } = queryOf(querySchema, request)
      find(deps, request, ssp)
      const config = deps.activeOpd(ssp)
      if (config === null) throw new Problem('opd_off')
      const log = deps.decisionLog()
      if (log === null) throw new Problem('no_decision_log')
      if (busy) throw new BusyError('another replay runs: try again in a minute')
      const now: TriedSettings = {
        ...{ min_factor: config.minFactor, min_win_rate: config.minWinRate },
        ...{ min_spend: config.minSpend, share: config.share },
      }
      const tried = {
        min_factor: asked.min_factor ?? now.min_factor,
        min_win_rate: asked.min_win_rate ?? now.min_win_rate,
        min_spend: asked.min_spend ?? now.min_spend,
        share: asked.share ?? now.share,
      }
      const { mode, explore, targetMargin } = config
      const policy = mode === 'margin' ? { explore, targetMargin } : { explore }
      busy = true
      try {
        const answer = await replayed({
          ...{ logs: await filesOf(log), ssp, policy: { mode, policy, from: 'file' }, now, tried },
          ...{ attributionWindow: deps.attributionWindow(), from: deps.now() - days * day, limits },
        })
        return {
          ...answer,
          currency: deps.currency(),
          now: inUnits(answer.now),
          tried: inUnits(answer.tried),
        } satisfies WhatIf
      } finally {
        busy = false
      }
    },
  }
}
