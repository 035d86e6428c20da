/** Kept win rate and kept spend beside their floors. */
import { percent } from '../format.js'
import { html } from '../html.js'

/** @import { LiveIntegration } from '../../../fleet/live.ts' */

/** @param {LiveIntegration} row @param {'kept' | 'keptSpend'} what */
export function keptCell(row, what) {
  const kept = row.modes[0]?.[what] ?? null
  const floor = row.opd?.[what === 'kept' ? 'minWinRate' : 'minSpend'] ?? null
  const on = row.opd?.state === 'on'
  const note = floor === null || !on ? '' : `floor ${percent(floor)}`
  if (kept === null) return html`–${note && html`<small>${note}</small>`}`
  return html`<strong class=${on ? kept.level : ''}>${percent(kept.at)}</strong>
    <small>${percent(kept.lower)} to ${percent(kept.upper)}</small><small>${note}</small>`
}
