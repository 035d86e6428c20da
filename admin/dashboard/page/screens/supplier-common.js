/** What the list and the page of a supplier share. */

import { Level } from '../components.js'
import { html } from '../html.js'
import { live, may, seesAll } from '../state.js'

/** @import { Kept, ListedIntegration } from '../../../fleet/live-schema.ts' */

/** @param {ListedIntegration[]} rows @param {(row: ListedIntegration) => number} countOf */
const sum = (rows, countOf) => rows.reduce((total, row) => total + countOf(row), 0)
const ratio = (/** @type {number} */ part, /** @type {number} */ total) =>
  total === 0 ? null : part / total

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

/** @param {{ supplier: ListedIntegration }} props */
export const Health = ({ supplier: { health } }) =>
  html`<${Level} level=${health.level} label=${health.level === 'none' ? 'No requests' : undefined} />`

/** What a screen of suppliers shows while there is none. */
export const NoSupplier = () =>
  html`<p class="box">${seesAll.value ? 'There is no supplier yet.' : `No supplier belongs to the account ${live.value?.caller.account}.`} ${
    may('operator') && seesAll.value
      ? html`Add one on the screen <a href="#/configuration">Configuration</a>, or in the configuration file.`
      : 'An operator of the account * adds suppliers; each names its account.'
  }</p>`
