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
  'capped',
  'below_floor',
  'unchecked',
] as const
export type Arm = (typeof arms)[number]

/** The index of each arm in `arms`. */
export const armAt = Object.fromEntries(arms.map((name, index) => [name, index])) as Record<
  Arm,
  number
>

/** Guards of the model. Contexts contain the index of a guard: append only. */
export const guards = ['none', 'start', 'silence', 'drop', 'kept', 'cleared', 'number'] as const
export type Guard = (typeof guards)[number]
/**
 * `start` limits the factor of a new model. It is not an alarm.
 *
 * @param guard what limited a decision
 */
export const isAlarm = (guard: Guard) => guard !== 'none' && guard !== 'start'

/** The objectives of an integration. Each has a model of its own. */
export const modes = ['revenue', 'margin'] as const
export type Mode = (typeof modes)[number]

/** How a bid came to be priced: in a bid response, by a standalone call, or by an agent call. Contexts contain the index: append only. */
export const vias = ['proxy', 'standalone', 'agent'] as const
export type Via = (typeof vias)[number]
/** The index of each way in `vias`. */
export const viaAt: Readonly<Record<Via, number>> = { proxy: 0, standalone: 1, agent: 2 }

/**
 * `money`: wins count in sums of money. `asks`: the learner makes a decision. `priced`: the price of this decision is sent.
 */
export const armRules: Readonly<Record<Arm, { money: boolean; asks: boolean; priced: boolean }>> = {
  holdout: { money: true, asks: true, priced: true },
  explored: { money: true, asks: true, priced: true },
  treated: { money: true, asks: true, priced: true },
  shadow: { money: true, asks: true, priced: false },
  hold: { money: true, asks: true, priced: false },
  outside: { money: true, asks: true, priced: false },
  unchecked: { money: true, asks: true, priced: false },
  capped: { money: true, asks: true, priced: false },
  floor: { money: true, asks: false, priced: false },
  below_floor: { money: true, asks: false, priced: false },
  no_rate: { money: true, asks: false, priced: false },
  fixed: { money: true, asks: false, priced: false },
  test: { money: false, asks: false, priced: false },
}
