/**
 * The way of a supplier's bids to money that OPD earns, step by step. Health, funnel and alerts read the same rules: what stops
 * a step, and what to do about it.
 */

import { uncheckedRules } from '../store/alerts.ts'
import type { FunnelFigures, SupplierFigures } from './figures.ts'
import { count, percent, type Reason } from './words.ts'

export const funnelSteps = [
  'requests',
  'answered',
  'bids',
  'macro',
  'priced',
  'notices',
  'attributed',
  'plausible',
] as const
type FunnelStep = (typeof funnelSteps)[number]

/** What stops a step. */
export interface FunnelFault extends Reason {
  rule: Rule['name']
  step: FunnelStep
  fix: string
  /** What to write to the supplier or to whoever reports wins. */
  mail: string
  /** The share of the bids for which OPD earns nothing, or nothing that can be checked. */
  lost: number
}

/** Bids, notices or wins from which their shares say anything. */
const fewest = 20
/** Decided bids of which at least one should have been won and reported. */
const enoughBids = 200
const badNotices = 0.1

interface Rule {
  name: 'no_macro' | (typeof uncheckedRules)[number]
  step: FunnelStep
  applies: (funnel: FunnelFigures, awaited: number, noticed: boolean | null) => boolean
  lost: (funnel: FunnelFigures) => number
  text: (funnel: FunnelFigures, awaited: number) => string
  fix: string
  mail: string
}

const sumOf = (counts: Readonly<Record<string, number>>, names: readonly string[]) =>
  names.reduce((sum, name) => sum + (counts[name] ?? 0), 0)
const counted = ['attributed', 'unattributed', 'duplicate', 'rejected']
/** The share of the notices with one status, 0 if there are too few. */
function noticeShare({ notices }: FunnelFigures, status: string): number {
  const all = sumOf(notices, counted)
  return all < fewest ? 0 : (notices[status] ?? 0) / all
}
const macroShare = ({ decided, noMacro }: FunnelFigures) => decided / (decided + noMacro)

/** A new row adds a rule. */
const rules: readonly Rule[] = [
  {
    name: 'no_macro',
    step: 'macro',
    applies: (funnel) => funnel.decided + funnel.noMacro >= fewest && macroShare(funnel) < 0.5,
    lost: (funnel) => 1 - macroShare(funnel),
    text: (funnel) =>
      funnel.decided === 0
        ? 'no bid contains the macro'
        : `only ${percent(macroShare(funnel))} of the bids contain the macro`,
    fix: 'Ask the supplier to put svc_opd=${SVC_OPD_CONTEXT} into nurl, burl or adm of every bid.',
    mail: 'Please add the text svc_opd=${SVC_OPD_CONTEXT} to the query of the win notice URL of every bid that you send us: in nurl, burl, or in a tracking URL of adm. We replace the macro before the bid goes on. Bids without it are passed on, but we cannot price them.',
  },
  {
    name: 'no_notices',
    step: 'notices',
    applies: (_funnel, awaited, noticed) => awaited >= enoughBids && noticed === false,
    lost: () => 1,
    text: (_funnel, awaited) => `no win notice has come for ${count(awaited)} decided bids`,
    fix: 'OPD learns and earns nothing. Check that the platform calls GET /opd/imp for each win.',
    mail: 'We receive no win notices for your bids. Please call our URL GET /opd/imp once for each win, with the parameters bid_id (the id of the bid), price (the cleared price as CPM, ${AUCTION_PRICE} expanded) and svc_opd (as it is in the bid that you received from us).',
  },
  {
    name: 'notices_refused',
    step: 'attributed',
    applies: (funnel) => noticeShare(funnel, 'rejected') > badNotices,
    lost: (funnel) => noticeShare(funnel, 'rejected'),
    text: (funnel) => `${percent(noticeShare(funnel, 'rejected'))} of the win notices are refused`,
    fix: 'Check that notices carry svc_opd or a token, and the cleared price as a plain number.',
    mail: 'We refuse a part of your win notices. Please send in each of them the parameter svc_opd, exactly as it is in the bid that you received from us, and price as a plain decimal number (CPM). A notice without svc_opd needs an access token.',
  },
  {
    name: 'notices_unattributed',
    step: 'attributed',
    applies: (funnel) => noticeShare(funnel, 'unattributed') > badNotices,
    lost: (funnel) => noticeShare(funnel, 'unattributed'),
    text: (funnel) =>
      `${percent(noticeShare(funnel, 'unattributed'))} of the win notices belong to no known decision`,
    fix: 'Check that notices carry svc_opd of the bid, and bid_id as it was in the response.',
    mail: 'A part of your win notices names bids that we do not know. Please send bid_id exactly as it was in the bid response, and svc_opd as it is in the bid that you received from us.',
  },
  {
    name: 'price_too_low',
    step: 'plausible',
    applies: ({ cleared, clearedLow }) => cleared >= fewest && clearedLow > cleared / 2,
    lost: ({ cleared, clearedLow }) => clearedLow / cleared,
    text: ({ cleared, clearedLow }) =>
      `${percent(clearedLow / cleared)} of the wins cleared below half of the price sent`,
    fix: 'Margin may not be real. Check that notices carry a CPM in the currency of the bid.',
    mail: 'The prices in your win notices are far below the prices of the bids that won. Please send the cleared price as CPM (the price of 1,000 impressions) in the currency of the bid: not the price of one impression, not in another unit or currency.',
  },
]

/** What stops the bids of a supplier with OPD on or in shadow, in the order of the steps. */
export const funnelFaults = (
  { funnel, awaited }: Pick<SupplierFigures, 'funnel' | 'awaited'>,
  noticed: boolean | null,
): FunnelFault[] =>
  rules
    .filter(({ applies }) => applies(funnel, awaited, noticed))
    .map(({ name, step, text, fix, mail, lost }) => ({
      ...{ rule: name, step, fix, mail },
      text: text(funnel, awaited),
      lost: lost(funnel),
    }))

/** Whether the margin of a supplier proves nothing. */
export const isUnchecked = (faults: readonly Pick<FunnelFault, 'rule'>[]): boolean =>
  faults.some(({ rule }) => rule !== 'no_macro' && uncheckedRules.includes(rule))

interface StepCount {
  step: FunnelStep
  count: number
  /** Its share of the step before; of wins that cleared at a plausible price, of those with a price. null: of nothing. */
  share: number | null
}

/** How many of the last minutes reached each step. */
export function funnelCounts({ requests, funnel }: SupplierFigures): StepCount[] {
  const { decided, noMacro, left, notices, cleared, clearedLow } = funnel
  const attributed = notices['attributed'] ?? 0
  const counts = {
    requests: sumOf(requests, Object.keys(requests)),
    answered: sumOf(requests, ['answer', 'no_bid']),
    bids: decided + noMacro + left,
    macro: decided + left,
    priced: decided,
    // a notice that was sent twice is one
    notices: attributed + sumOf(notices, ['unattributed', 'rejected']),
    attributed,
    plausible: cleared - clearedLow,
  }
  return funnelSteps.map((step, index) => {
    const before = step === 'plausible' ? cleared : counts[funnelSteps[index - 1] ?? 'requests']
    return {
      ...{ step, count: counts[step] },
      // requests have no step before, and bids are not a part of the answers
      share:
        before === 0 || step === 'requests' || step === 'bids'
          ? null
          : Math.min(1, counts[step] / before),
    }
  })
}
