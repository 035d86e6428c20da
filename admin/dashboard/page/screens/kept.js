/** Kept win rate and kept spend beside their floors. */
import { money, percent, whole } from '../format.js'
import { html } from '../html.js'
import { currency } from '../state.js'

/** @import { Kept, LiveIntegration, LiveMode } from '../../../fleet/live.ts' */

/** A wider interval says nothing: too few wins are known. */
const widest = 1

/** The figure, if enough wins are known for it. @param {Kept | null | undefined} kept */
export const knownKept = (kept) => (kept != null && kept.upper - kept.lower <= widest ? kept : null)

/** @param {LiveIntegration} row @param {'kept' | 'keptSpend'} what */
export function keptCell(row, what) {
  const kept = knownKept(row.modes[0]?.[what])
  const floor = row.opd?.[what === 'kept' ? 'minWinRate' : 'minSpend'] ?? null
  const on = row.opd?.state === 'on'
  const note = floor === null || !on ? '' : `floor ${percent(floor)}`
  if (kept === null) return html`–${note && html`<small>${note}</small>`}`
  return html`<strong class=${on ? kept.level : ''}>${percent(kept.at)}</strong>
    <small>${percent(kept.lower)} to ${percent(kept.upper)}</small><small>${note}</small>`
}

/** The interval, the floor, and what it means in wins or in money. @param {LiveMode | undefined} mode @param {'kept' | 'keptSpend'} what */
export function keptNote(mode, what) {
  const kept = knownKept(mode?.[what])
  if (mode === undefined || kept === null)
    return 'unknown: too few wins, or no holdout to compare with'
  const { wins, spend } = mode.missing ?? { wins: 0, spend: 0 }
  const [amount, text] =
    what === 'kept'
      ? [wins, `${whole(Math.abs(wins))} wins`]
      : [spend, `${money(Math.abs(spend), currency.value)} of spend`]
  return html`${percent(kept.lower)} to ${percent(kept.upper)}, floor ${percent(kept.floor)}; about ${text} ${amount > 0 ? 'fewer' : 'more'} than at full price`
}
