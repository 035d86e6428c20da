/** What the list and the page of a supplier share. */

import { Level } from '../components.js'
import { html } from '../html.js'

/** @import { Kept, ListedIntegration } from '../../../fleet/live-schema.ts' */

/** @param {ListedIntegration[]} rows @param {(row: ListedIntegration) => number} of */
const sum = (rows, of) => rows.reduce((total, row) => total + of(row), 0)
const ratio = (/** @type {number} */ part, /** @type {number} */ whole) =>
  whole === 0 ? null : part / whole

/** The share of the requests sent to these suppliers that have these outcomes; null if none was sent.
 * @param {ListedIntegration[]} rows @param {string[]} outcomes */
export const shareOf = (rows, ...outcomes) =>
  ratio(
    sum(rows, ({ requests }) => outcomes.reduce((n, name) => n + (requests[name] ?? 0), 0)),
    sum(rows, ({ sent }) => sent),
  )

/** The share of the requests sent to these suppliers that failed. @param {ListedIntegration[]} rows */
export const failedShare = (rows) =>
  ratio(
    sum(rows, ({ failed }) => failed),
    sum(rows, ({ sent }) => sent),
  )

/** The share of all requests that bidweir refused. @param {ListedIntegration[]} rows */
export const refusedShare = (rows) =>
  ratio(
    sum(rows, ({ refused }) => refused),
    sum(rows, ({ total }) => total),
  )

/** The figure, if enough wins are known for it. @param {Kept | null | undefined} kept */
export const knownKept = (kept) => (kept?.known ? kept : null)

/** @param {{ of: ListedIntegration }} props */
export const Health = ({ of: { health } }) =>
  html`<${Level} level=${health.level} label=${health.level === 'none' ? 'No requests' : undefined} />`
