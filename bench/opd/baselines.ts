/** Other methods, with the part of the learner's interface that the driver needs. */

import { normal } from '../../opd/base/random.ts'
import type { BidFacts, Decision } from '../../opd/learner.ts'
import type { Bidder } from './drive.ts'

const factors = Array.from({ length: 15 }, (_each, n) => 0.3 + 0.05 * n)

/** Keeps what was sent by an id of eight bytes; settles it after `noticeTimeout`. */
abstract class Baseline<Sent> implements Bidder {
  private readonly sent = new Map<number, { time: number; what: Sent }>()
  private id = 0
  protected abstract price(facts: BidFacts, random: () => number): { price: number; what: Sent }
  protected abstract learn(what: Sent, won: boolean): void
  private last: Sent | undefined

  decide(
    facts: BidFacts,
    _policy: unknown,
    _key: string,
    _now: number,
    random: () => number,
  ): Decision {
    const { price, what } = this.price(facts, random)
    this.last = what
    const outBa = Math.min(facts.inBa, Math.max(facts.floor, price))
    const factor = outBa / facts.inBa
    return { outBa, factor, arm: 'treated', propensity: 1, winIn: 0, winOut: 0 }
  }
  expose(_decision: Decision, _sent: number, now: number): Uint8Array {
    this.sent.set(++this.id, { time: now, what: this.last as Sent })
    return new Uint8Array(Float64Array.of(this.id).buffer)
  }
  win(features: Uint8Array): void {
    const id = new Float64Array(features.buffer)[0]!
    const found = this.sent.get(id)
    if (found === undefined) return
    this.sent.delete(id)
    this.learn(found.what, true)
  }
  advance(now: number): void {
    for (const [id, { time, what }] of this.sent) {
      if (time > now - 60_000) return
      this.sent.delete(id)
      this.learn(what, false)
    }
  }
}

interface Arms {
  wins: Float64Array
  losses: Float64Array
}

/** Thompson sampling over 15 factors for each supplier and publisher, win rates as beta distributions. */
export class Thompson extends Baseline<Arms & { arm: number }> {
  private readonly segments = new Map<string, Arms>()

  protected price(facts: BidFacts, random: () => number) {
    const name = `${facts.supplier} ${facts.publisher}`
    const fresh = () => new Float64Array(factors.length).fill(1)
    const arms = this.segments.get(name) ?? { wins: fresh(), losses: fresh() }
    this.segments.set(name, arms)
    const worth = factors.map((factor, arm) => {
      const [a, b] = [arms.wins[arm]!, arms.losses[arm]!]
      const mean = a / (a + b)
      const drawn = mean + normal(random) * Math.sqrt((mean * (1 - mean)) / (a + b + 1))
      return (1 - factor) * drawn
    })
    const arm = worth.indexOf(Math.max(...worth))
    return { price: facts.inBa * factors[arm]!, what: { ...arms, arm } }
  }
  protected learn({ wins, losses, arm }: Arms & { arm: number }, won: boolean): void {
    const side = won ? wins : losses
    side[arm]! += 1
  }
}

interface Features {
  names: number[]
  lnF: number
  lnIn: number
}

/** Online logistic regression (AdaGrad) on the usual crosses, and the best of 70 factors; 2 % uniform. */
export class Logistic extends Baseline<Features> {
  private readonly weights = new Float64Array(2 ** 16)
  private readonly squares = new Float64Array(2 ** 16).fill(1)

  private hash(text: string): number {
    let value = 0x811c9dc5
    for (let index = 0; index < text.length; index++)
      value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
    return (value ^ (value >>> 15)) & 0xffff
  }
  private terms(names: number[], lnF: number, lnIn: number): [number, number][] {
    const bySlope = names.slice(0, 3).map((name): [number, number] => [(name + 1) & 0xffff, lnF])
    return [...names.map((name): [number, number] => [name, 1]), ...bySlope, [7, lnIn]]
  }
  private chance(terms: [number, number][]): number {
    let z = 0
    for (const [index, value] of terms) z += this.weights[index]! * value
    return 1 / (1 + Math.exp(-z))
  }
  protected price(facts: BidFacts, random: () => number) {
    const { supplier, publisher, placement, country, device, size, dsp } = facts
    const names = [
      '',
      supplier,
      `${supplier} ${publisher}`,
      `p ${placement}`,
      `c ${supplier} ${country}`,
      `d ${supplier} ${device}`,
      `s ${supplier} ${size}`,
      `b ${supplier} ${dsp}`,
      `x ${publisher} ${country}`,
    ].map((name) => this.hash(name))
    const lnIn = Math.log(facts.inBa)
    let factor = 1
    if (random() < 0.02) factor = 0.3 + 0.7 * random()
    else {
      const flat = this.terms(names, 0, lnIn)
      let [base, slope] = [0, 0]
      for (let n = 0; n < flat.length; n++) {
        const weight = this.weights[flat[n]![0]]!
        if (n >= names.length && n < names.length + 3) slope += weight
        else base += weight * flat[n]![1]
      }
      let most = -1
      for (let f = 0.3; f < 1; f += 0.01) {
        const worth = (1 - f) / (1 + Math.exp(-(base + slope * Math.log(f))))
        if (worth > most) {
          most = worth
          factor = f
        }
      }
    }
    const lnF = Math.log(Math.max(factor, facts.floor / facts.inBa))
    return { price: facts.inBa * factor, what: { names, lnF, lnIn } }
  }
  protected learn({ names, lnF, lnIn }: Features, won: boolean): void {
    const terms = this.terms(names, lnF, lnIn)
    const error = (won ? 1 : 0) - this.chance(terms)
    for (const [index, value] of terms) {
      const g = error * value
      this.squares[index]! += g * g
      this.weights[index]! += (0.15 * g) / Math.sqrt(this.squares[index]!)
    }
  }
}
