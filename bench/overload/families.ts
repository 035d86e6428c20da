/**
 * Suppliers made from seeds, by family. The latency of an independent family does not depend on the number of requests
 * in flight; the goodput of the highest fixed limit is what the adaptive limit is compared with. The suppliers of the
 * other families have a capacity, and get a multiple of it.
 */
import { source } from '../../test/support/random.ts'
import type { Block, Cell } from '../harness/report.ts'
import { quantile } from '../harness/statistics.ts'
import { type Request, type Scenario, simulate } from './simulation.ts'

type Random = () => number

const between = (random: Random, least: number, most: number) => least + (most - least) * random()
const logarithmic = (random: Random, least: number, most: number) =>
  least * (most / least) ** random()
const normal = (random: Random) =>
  Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())

/** The quantile of the standard normal distribution, by bisection of its logistic approximation. */
function normalQuantile(share: number): number {
  const odds = Math.log(share / (1 - share))
  let [low, high] = [-5, 5]
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2
    if (1.5976 * middle + 0.07056 * middle ** 3 < odds) low = middle
    else high = middle
  }
  return low
}

/** A supplier of a family, and the load that it gets. */
export interface Member {
  what: string
  /** A new one for each run: the sources of randomness within it have a state. */
  scenario(): Scenario
  /** Milliseconds from which on requests count. */
  from: number
  /** Requests per second that the supplier can answer in time; null: as many as with the highest fixed limit. */
  capacity: number | null
  /** A fixed limit that suits the supplier. */
  suited: number
}

/** Simulated requests of a run, at most. */
const mostRequests = 60_000

interface Independent {
  what: string
  /** Milliseconds that a request takes at `now`; infinite: it is never answered. `late`: the share that is too late. */
  latency(random: Random, deadline: number, late: number): (now: number) => number
  deadlines?(random: Random, deadline: number, late: number): () => number
}

const lognormalLate =
  (random: Random, deadline: number, late: number, sigma: number) => (): number =>
    deadline * Math.exp(sigma * (normal(random) - normalQuantile(1 - late)))

const independent: Readonly<Record<string, Independent>> = {
  lognormal: {
    what: 'lognormal latency',
    latency: (random, deadline, late) =>
      lognormalLate(random, deadline, late, logarithmic(random, 0.1, 1)),
  },
  never: {
    what: 'a share is never answered',
    latency(random, deadline, late) {
      const fast = deadline * between(random, 0.1, 0.9)
      return () => (random() < late ? Number.POSITIVE_INFINITY : fast * (0.9 + 0.2 * random()))
    },
  },
  region: {
    what: 'a share comes from a far region',
    latency(random, deadline, late) {
      const near = deadline * between(random, 0.05, 0.5)
      const far = deadline * between(random, 1.1, 3)
      return () => (random() < late ? far : near) * Math.exp(0.15 * normal(random))
    },
  },
  tmax: {
    what: 'callers with a short tmax',
    latency(random, deadline) {
      const mean = deadline * between(random, 0.3, 0.8)
      return () => mean * Math.exp(0.2 * normal(random))
    },
    deadlines: (random, deadline, late) => () =>
      random() < late ? deadline * between(random, 0.1, 0.35) : deadline,
  },
  drift: {
    what: 'the latency changes slowly',
    latency(random, deadline, late) {
      const period = logarithmic(random, 20_000, 120_000)
      const sigma = between(random, 0.15, 0.5)
      const depth = between(random, 0.2, 0.7)
      const long = lognormalLate(random, deadline, late, sigma)
      return (now) => long() * (1 - depth * (0.5 + 0.5 * Math.cos((2 * Math.PI * now) / period)))
    },
  },
  step: {
    what: 'good, late, good again',
    latency(random, deadline, late) {
      const fast = deadline * between(random, 0.1, 0.4)
      const begins = between(random, 10_000, 14_000)
      const ends = begins + between(random, 4000, 12_000)
      const isLate = (now: number) => now > begins && now < ends && random() < late
      return (now) => (isLate(now) ? deadline * 2 : fast * Math.exp(0.2 * normal(random)))
    },
  },
}

function independentMember(family: string, seed: number): Member {
  const { latency, deadlines } = independent[family]!
  const random = source(seed)
  const rate = logarithmic(random, 20, 5000)
  const deadline = logarithmic(random, 30, 2000)
  const late = between(random, 0.1, 0.5)
  const lasts = Math.max(25_000, Math.min(120_000, (mostRequests / rate) * 1000))
  return {
    what: `${rate.toFixed(0)}/s, deadline ${deadline.toFixed(0)} ms, ${(100 * late).toFixed(0)} % late`,
    scenario() {
      const random = source(seed + 1_000_000)
      return {
        ...{ slots: Number.POSITIVE_INFINITY, cancels: true, lasts, random },
        service: latency(random, deadline, late),
        deadline: deadlines?.(random, deadline, late) ?? deadline,
        arrivals: () => rate,
      }
    },
    ...{ from: 10_000, capacity: null, suited: 8192 },
  }
}

interface Loaded {
  what: string
  /** The deadline, least and most, as multiples of the mean work. */
  deadlines?: readonly [number, number]
  scenario(
    random: Random,
    shape: { slots: number; mean: number; deadline: number },
  ): Partial<Scenario>
}

const workTime = (random: Random, mean: number, sigma: number) => () =>
  sigma === 0 ? mean : mean * Math.exp(sigma * normal(random) - (sigma * sigma) / 2)
const someSigma = (random: Random) => (random() < 0.3 ? 0 : between(random, 0.1, 0.5))

const loaded: Readonly<Record<string, Loaded>> = {
  queue: {
    what: 'workers with a queue',
    scenario: (random, { mean }) => ({ service: workTime(random, mean, someSigma(random)) }),
  },
  sharing: {
    what: 'processor sharing',
    scenario: (random, { mean }) => ({
      ...{ service: workTime(random, mean, someSigma(random)), shares: true },
    }),
  },
  ignoring: {
    what: 'works on for clients that are gone',
    scenario: (random, { mean }) => ({
      ...{ service: workTime(random, mean, someSigma(random)), cancels: false },
    }),
  },
  errors: {
    what: 'answers errors at once past a queue',
    scenario: (random, { mean, slots, deadline }) => ({
      service: workTime(random, mean, someSigma(random)),
      longestQueue: Math.ceil(slots * (deadline / mean - 1) * between(random, 0.3, 1.5)),
    }),
  },
  changing: {
    what: 'the capacity changes',
    scenario(random, { mean, slots }) {
      const period = between(random, 4000, 20_000)
      const low = Math.ceil(slots * between(random, 0.4, 0.8))
      return {
        service: workTime(random, mean, someSigma(random)),
        slots: (now: number) => (now % period < period / 2 ? slots : low),
      }
    },
  },
  dropping: {
    what: 'workers with a queue, 30 % never answered',
    scenario: (random, { mean }) => ({
      ...{ service: workTime(random, mean, someSigma(random)), drops: () => random() < 0.3 },
    }),
  },
  tight: {
    what: 'work of half the deadline and more',
    deadlines: [1.4, 2],
    scenario: (random, { mean }) => ({ service: workTime(random, mean, someSigma(random)) }),
  },
}

/** At most two fifths of the deadline are work: with less there is no room for a queue. */
const roomyDeadlines = [2.5, 12] as const

export const multiples = [2, 5, 10] as const

function loadedMember(family: string, seed: number, times: number): Member {
  const { scenario: special, deadlines = roomyDeadlines } = loaded[family]!
  const random = source(seed)
  const mean = logarithmic(random, 8, 150)
  const slots = Math.round(logarithmic(random, 3, Math.min(200, 1.5 * mean)))
  const deadline = mean * logarithmic(random, ...deadlines)
  const lasts = 20_000
  const scenario = () => {
    const random = source(seed + 1_000_000)
    return {
      ...{ slots, cancels: true, deadline, lasts, random },
      arrivals: () => offered,
      ...special(random, { slots, mean, deadline }),
    } as Scenario
  }
  const all = scenario().slots
  let [sum, count] = [0, 0]
  for (let time = 0; time < lasts; time += 10, count++)
    sum += typeof all === 'number' ? all : all(time)
  const capacity = (1000 * (sum / count)) / mean
  const offered = ((1000 * slots) / mean) * times
  const dropped = family === 'dropping' ? 0.3 : 0
  return {
    what: `${slots} x ${mean.toFixed(0)} ms, deadline ${deadline.toFixed(0)} ms, ${times}x`,
    ...{ scenario, from: 0, capacity },
    suited: Math.ceil(slots + (capacity / (1 - dropped)) * dropped * (deadline / 1000)),
  }
}

export const independentFamilies = Object.entries(independent).map(([name, { what }]) => ({
  ...{ name, what },
  member: (seed: number) => independentMember(name, seed),
}))
export const loadedFamilies = Object.entries(loaded).map(([name, { what }]) => ({
  ...{ name, what },
  member: (seed: number, times: number) => loadedMember(name, seed, times),
}))

function goodIn(requests: readonly Request[], from: number): number {
  let count = 0
  for (const { arrived, outcome } of requests) if (arrived >= from && outcome === 'good') count++
  return count
}

/** The goodput of a member with this limit (none: the adaptive one), as a share of what is possible. */
export function goodput(member: Member, maxInFlight?: number): number {
  const { scenario, capacity, from } = member
  const run = (limit?: number) => {
    const model = scenario()
    const { requests } = simulate({ ...model, ...(limit !== undefined && { maxInFlight: limit }) })
    return { good: goodIn(requests, from), lasts: model.lasts }
  }
  const { good, lasts } = run(maxInFlight)
  return good / (capacity === null ? run(8192).good : (capacity * (lasts - from)) / 1000)
}

/** Nothing about the limiter was chosen on seeds from this one on. What the others were used for: README.md. */
const firstSeed = 20_001
const head = ['supplier', 'load', 'p5', 'p10', 'p25', 'p50', 'fixed: p5', 'fixed: p50']
const percent = (share: number) => (100 * share).toFixed(1)

function row(what: string, load: string, members: readonly Member[]): Cell[] {
  const adaptive = members.map((member) => goodput(member))
  const quantileText = (shares: readonly number[], share: number) =>
    percent(quantile(shares, share))
  // The goodput of the others is measured by that of the highest fixed limit.
  const isLoaded = members[0]!.capacity !== null
  const fixed = isLoaded ? members.map((member) => goodput(member, member.suited)) : null
  return [
    ...[what, load, ...[0.05, 0.1, 0.25, 0.5].map((share) => quantileText(adaptive, share))],
    ...(fixed === null
      ? ['100.0', '100.0']
      : [quantileText(fixed, 0.05), quantileText(fixed, 0.5)]),
  ]
}

/** The goodput of all families, by percentiles over this number of seeds. The same at each run. */
export function families(seeds: number): Block[] {
  const seedList = Array.from({ length: seeds }, (_, nth) => firstSeed + nth)
  return [
    `Goodput in time in percent, ${seeds} suppliers of each family. 20 to 5,000 requests/s, deadlines of 30 ms to 2 s, 10 to 50 % late whatever the load, from 10 s on: percent of the goodput of a fixed limit of 8,192.`,
    {
      head,
      rows: independentFamilies.map(({ what, member }) => row(what, '–', seedList.map(member))),
    },
    'Suppliers with a capacity, at a multiple of it, 20 s from a cold start: percent of the capacity. "Fixed" is `maxInFlight` equal to the slots, and for requests that are never answered to what they occupy.',
    {
      head,
      rows: loadedFamilies.flatMap(({ what, member }) =>
        multiples.map((times) =>
          row(
            what,
            `${times}x`,
            seedList.map((seed) => member(seed, times)),
          ),
        ),
      ),
    },
  ]
}
