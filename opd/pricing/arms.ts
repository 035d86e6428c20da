/** The arms of bids, and their rules (CONTRACT 4.3, second paragraph). */

/** Contexts contain the index of an arm: append only. */
export const arms = [
  'holdout',
  'explored',
  'treated',
  'shadow',
  'hold',
  'test',
  'no_rate',
  'floor',
  'outside',
  'fixed',
] as const
export type Arm = (typeof arms)[number]

export const armAt = Object.fromEntries(arms.map((name, at) => [name, at])) as Record<Arm, number>

/** Guards of the model. Contexts contain the index of a guard: append only. */
export const guards = ['none', 'start', 'silence', 'drop', 'kept', 'cleared', 'number'] as const
export type Guard = (typeof guards)[number]
/** `start` limits the factor of a new model. It is not an alarm. */
export const isAlarm = (guard: Guard) => guard !== 'none' && guard !== 'start'

export const modes = ['revenue', 'margin'] as const
export type Mode = (typeof modes)[number]

/** `money`: wins count in sums of money. `asks`: the learner decides, even if its price is not sent. `priced`: its price is sent. */
export const armRules: Readonly<Record<Arm, { money: boolean; asks: boolean; priced: boolean }>> = {
  holdout: { money: true, asks: true, priced: true },
  explored: { money: true, asks: true, priced: true },
  treated: { money: true, asks: true, priced: true },
  shadow: { money: true, asks: true, priced: false },
  hold: { money: true, asks: true, priced: false },
  outside: { money: true, asks: true, priced: false },
  floor: { money: true, asks: false, priced: false },
  no_rate: { money: true, asks: false, priced: false },
  fixed: { money: true, asks: false, priced: false },
  test: { money: false, asks: false, priced: false },
}

/**
 * Hashes a text with a secret seed to a number in [0, 1), by two 32-bit multiply-xor hashes of which 53 bits are used. It is
 * equal on all nodes, so that an auction is within the share on every node, or on none.
 */
export function unitHash(text: string, seed: number): number {
  let a = 0xdeadbeef ^ seed
  let b = 0x41c6ce57 ^ seed
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    a = Math.imul(a ^ code, 2654435761)
    b = Math.imul(b ^ code, 1597334677)
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
  return ((b >>> 0) * 2 ** 21 + ((a >>> 0) & 0x1fffff)) / 2 ** 53
}
