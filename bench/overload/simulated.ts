/**
 * The goodput of simulated suppliers past their capacity: those that the constants of the limiter were chosen on, and others
 * that check the choice. The same at each run.
 */
import { source } from '../../test/support/random.ts'
import type { Block } from '../harness/report.ts'
import { type Scenario, simulate } from './simulation.ts'

/** Lognormal around its mean; 0: always the mean. */
export function lognormal(mean: number, sigma: number, seed: number): () => number {
  const random = source(seed)
  return () => {
    if (sigma === 0) return mean
    const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())
    return mean * Math.exp(sigma * normal - (sigma * sigma) / 2)
  }
}

/** One of two times: the first with this probability. */
export function bimodal(short: number, long: number, share: number, seed: number): () => number {
  const random = source(seed)
  return () => (random() < share ? short : long)
}

export interface Modelled {
  slots: number
  /** Milliseconds that a slot is busy with a request. */
  mean: number
  /** Width of the lognormal distribution around it; 0: always the same. */
  sigma: number
  deadline: number
  /** Whether a cancelled request leaves the supplier's queue and slot. */
  cancels: boolean
}

export function overload(modelled: Modelled, times: number, seed: number, maxInFlight?: number) {
  const { slots, mean, sigma, cancels, deadline } = modelled
  const capacity = (1000 * slots) / mean
  const lasts = 10_000
  const scenario: Scenario = {
    ...{ slots, cancels, deadline, lasts },
    service: lognormal(mean, sigma, seed),
    arrivals: () => capacity * times,
    ...(maxInFlight !== undefined && { maxInFlight }),
  }
  const { requests } = simulate(scenario)
  const good = requests.filter(({ outcome }) => outcome === 'good').length
  const refused = requests.filter(({ outcome }) => outcome === 'refused')
  const waited = refused.filter(({ arrived, ended }) => ended - arrived > 50).length
  const possible = capacity * Math.min(1, times) * (lasts / 1000)
  return {
    goodput: good / possible,
    refused: refused.length / requests.length,
    waited: refused.length === 0 ? 0 : waited / refused.length,
  }
}

interface Group {
  what: string
  seed: number
  /** Slots, milliseconds, deadline. */
  suppliers: readonly (readonly [number, number, number])[]
}

const groups: readonly Group[] = [
  {
    ...{ what: 'Suppliers that the constants were chosen on:', seed: 1 },
    suppliers: [
      [4, 100, 500],
      [10, 50, 300],
      [10, 20, 120],
    ],
  },
  {
    ...{ what: 'Suppliers whose service takes half of the deadline and more:', seed: 1 },
    suppliers: [
      [10, 60, 120],
      [10, 85, 120],
    ],
  },
  {
    ...{ what: 'Suppliers only looked at afterwards:', seed: 11 },
    suppliers: [
      [6, 70, 400],
      [25, 30, 150],
      [50, 100, 1000],
      [8, 40, 250],
      [16, 80, 200],
      [3, 150, 1000],
    ],
  },
]
const head = [
  ...['slots, service, deadline', 'service', 'notices aborts', 'refused at 0.8x'],
  ...['2x', '5x', '10x', 'refused later than 50 ms', 'N: 2x', 'N: 5x', 'N: 10x'],
]
const percent = (share: number) => (100 * share).toFixed(1)

function row(
  [slots, mean, deadline]: Group['suppliers'][0],
  sigma: number,
  cancels: boolean,
  seed: number,
) {
  const modelled = { slots, mean, deadline, sigma, cancels }
  const past = [2, 5, 10].map((times) => overload(modelled, times, seed))
  const fixed = [2, 5, 10].map((times) => overload(modelled, times, seed, slots))
  return [
    `${slots} x ${mean} ms, ${deadline} ms`,
    sigma === 0 ? 'constant' : 'lognormal',
    cancels ? 'yes' : 'no',
    percent(overload(modelled, 0.8, seed).refused),
    ...past.map(({ goodput }) => percent(goodput)),
    percent(Math.max(...past.map(({ waited }) => waited))),
    ...fixed.map(({ goodput }) => percent(goodput)),
  ]
}

export const simulated = (): Block[] => [
  'Goodput in time in percent of the capacity, 10 s from a cold start; the same at each run. N: `maxInFlight` equal to the slots. "Refused later than 50 ms" is the share of all refusals at the worst of the three loads.',
  ...groups.flatMap(({ what, seed, suppliers }) => [
    what,
    {
      head,
      rows: suppliers.flatMap((supplier) =>
        [0, 0.5].flatMap((sigma) =>
          [true, false].map((cancels) => row(supplier, sigma, cancels, seed)),
        ),
      ),
    },
  ]),
]
