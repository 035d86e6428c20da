/** What the list and the page of a supplier share. */

import { Level } from '../components.js'
import { html } from '../html.js'

/** @import { Kept, LiveIntegration } from '../../../fleet/live.ts' */

/** @param {LiveIntegration} row */
export const totalOf = ({ requests }) => Object.values(requests).reduce((sum, n) => sum + n, 0)

/** The share of the requests of these suppliers with these outcomes; null without requests.
 * @param {LiveIntegration[]} rows @param {string[]} outcomes */
export function shareOf(rows, ...outcomes) {
  const total = rows.reduce((sum, row) => sum + totalOf(row), 0)
  const of = rows.flatMap(({ requests }) => outcomes.map((name) => requests[name] ?? 0))
  return total === 0 ? null : of.reduce((sum, n) => sum + n, 0) / total
}

/** The widest interval that is shown. If it is wider, too few wins are known. */
const widest = 1

/** The figure, if enough wins are known for it. @param {Kept | null | undefined} kept */
export const knownKept = (kept) => (kept != null && kept.upper - kept.lower <= widest ? kept : null)

/** @param {{ of: LiveIntegration }} props */
export const Health = ({ of: { health } }) =>
  html`<${Level} level=${health.level} label=${health.level === 'none' ? 'No requests' : undefined} />`
