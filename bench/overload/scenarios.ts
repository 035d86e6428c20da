/** Suppliers and loads for the simulation: those that the limiter was tuned on, and those only looked at afterwards. */
import { source } from '../../test/support/random.ts'
import { type Scenario, simulate } from './simulation.ts'

/** Lognormal around its mean. */
export function lognormal(mean: number, sigma: number, seed: number): () => number {
  const random = source(seed)
  return () => {
    const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())
    return mean * Math.exp(sigma * normal - (sigma * sigma) / 2)
  }
}

/** One of two times: the first with this probability. */
export function bimodal(short: number, long: number, share: number, seed: number): () => number {
  const random = source(seed)
  return () => (random() < share ? short : long)
}

interface Supplier {
  slots: number
  /** Milliseconds. */
  mean: number
  deadline: number
  /** Width of the lognormal distribution; 0: always the same. */
  sigma: number
  cancels: boolean
}

export function overload(of: Supplier, times: number, seed: number, maxInFlight?: number) {
  const { slots, mean, sigma, cancels, deadline } = of
  const capacity = (1000 * slots) / mean
  const lasts = 10_000
  const scenario: Scenario = {
    ...{ slots, cancels, deadline, lasts },
    service: sigma === 0 ? () => mean : lognormal(mean, sigma, seed),
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
