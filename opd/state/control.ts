/**
 * What operators have said of the models: rolled back, frozen, a supplier forgotten. It joins: whatever order nodes hear
 * of it in, and however often, all end with the same.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Mode, modes } from '../arms.ts'

export interface Control {
  /** By mode: the last rollback, milliseconds since the Unix epoch; deltas of another epoch are ignored. */
  epochs: Record<Mode, number>
  /** The last word on it, and when it was said. */
  frozen: { at: number; is: boolean }
  /** By supplier: when it was last forgotten. */
  resets: Record<string, number>
}

export const controlFile = 'control.json'
/** Suppliers are at most so many (configuration). */
const mostResets = 10_000

export const startControl = (): Control => ({
  epochs: { revenue: 0, margin: 0 },
  frozen: { at: 0, is: false },
  resets: {},
})

/** Commutative, associative, idempotent. */
export function joinControl(one: Control, other: Control): Control {
  const resets = { ...one.resets }
  for (const [supplier, at] of Object.entries(other.resets))
    resets[supplier] = Math.max(resets[supplier] ?? 0, at)
  const [later, earlier] =
    one.frozen.at >= other.frozen.at ? [one.frozen, other.frozen] : [other.frozen, one.frozen]
  // Said at the same moment: to stand still is the careful one.
  const is = later.at === earlier.at ? later.is || earlier.is : later.is
  return {
    epochs: {
      revenue: Math.max(one.epochs.revenue, other.epochs.revenue),
      margin: Math.max(one.epochs.margin, other.epochs.margin),
    },
    frozen: { at: later.at, is },
    resets,
  }
}

export function sameControl(one: Control, other: Control): boolean {
  return spellControl(one) === spellControl(other)
}

/** One spelling for one control. */
export function spellControl({ epochs, frozen, resets }: Control): string {
  const sorted = Object.entries(resets).sort(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify({
    epochs: { revenue: epochs.revenue, margin: epochs.margin },
    frozen: { at: frozen.at, is: frozen.is },
    resets: Object.fromEntries(sorted),
  })
}

const isTime = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 48

/** null: not a control of ours. */
export function parseControl(text: string): Control | null {
  let value: Partial<Control> | null
  try {
    value = JSON.parse(text) as Partial<Control> | null
  } catch {
    return null
  }
  const { epochs, frozen, resets } = value ?? {}
  if (!modes.every((mode) => isTime(epochs?.[mode]))) return null
  if (!isTime(frozen?.at) || typeof frozen.is !== 'boolean') return null
  if (typeof resets !== 'object' || resets === null) return null
  const rows = Object.entries(resets)
  if (rows.length > mostResets || !rows.every(([, at]) => isTime(at))) return null
  return { epochs: epochs!, frozen, resets }
}

/** What was said before the restart; null: nothing, `undefined`: it cannot be read. */
export function readControl(dir: string): Control | null | undefined {
  let text: string
  try {
    text = readFileSync(join(dir, controlFile), 'utf8')
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : undefined
  }
  return parseControl(text) ?? undefined
}
