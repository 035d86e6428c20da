/** The figures of the page: polled while someone is logged in. Screens read the signals. */
import { computed, signal } from '@preact/signals'
import { dateOf, startOfDay, zone } from './format.js'
import { call, onEnd, tokens } from './session.js'

/** @import { LiveSnapshot, LiveIntegration } from '../../fleet/live-schema.ts' */
/** @import { ReportRow } from '../../reports/columns.ts' */

const every = 3000
/** Reports read the store, and change slowly. */
export const reportsEvery = 20_000

/** @type {import('@preact/signals').Signal<LiveSnapshot | null>} */
export const live = signal(null)
/** Why the figures are not up to date; empty if they are. */
export const stale = signal('')
/** The node that is shown; empty: all nodes. */
export const shownNode = signal('')
/** By supplier; null until read. @type {import('@preact/signals').Signal<Map<string, Pick<ReportRow, 'margin' | 'decided' | 'wins'>> | null>} */
export const today = signal(null)

const ranks = ['viewer', 'api', 'operator']
/** Whether the caller has a role. @param {'viewer' | 'api' | 'operator'} role */
export const may = (role) => ranks.indexOf(live.value?.caller.role ?? '') >= ranks.indexOf(role)
export const seesAll = computed(() => live.value?.caller.account === '*')
export const currency = computed(() => live.value?.currency ?? 'USD')

/** @param {string} id @returns {LiveIntegration | undefined} */
export const integration = (id) => live.value?.integrations.find(({ ssp }) => ssp === id)

/** The suppliers that the caller sees, to choose from. @returns {[value: string, label: string][]} */
export const supplierOptions = () =>
  live.value?.integrations.map(({ ssp, name }) => [ssp, name]) ?? []

export async function readLive() {
  const node = shownNode.value
  const query = node === '' ? '' : `?node=${encodeURIComponent(node)}`
  const next = await call(`/api/svc/live/${query}`)
  // the user may have logged out or chosen another node meanwhile
  if (tokens.value === null || node !== shownNode.value) return
  live.value = next
  stale.value = ''
}

/** Shows the figures of one node, or of all. @param {string} node */
export function showNode(node) {
  shownNode.value = node
  void poll()
}

let readAt = 0
let readFor = ''

async function readToday() {
  const from = startOfDay(dateOf(Date.now()))
  const rows = await call(`/api/svc/reports/margin?by=ssp&from=${from}`)
  if (tokens.value === null) return
  today.value = new Map(rows.map((/** @type {ReportRow} */ row) => [row.key, row]))
  readAt = Date.now()
  readFor = zone.value
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let polling

export async function poll() {
  clearTimeout(polling)
  if (tokens.value === null) return
  try {
    await readLive()
    if (Date.now() - readAt > reportsEvery || readFor !== zone.value) await readToday()
  } catch (error) {
    const { status, message } = /** @type {import('./session.js').ApiError} */ (error)
    // a node that has ended: back to all
    if (status === 404) shownNode.value = ''
    stale.value = message
  }
  clearTimeout(polling)
  if (tokens.value !== null) polling = setTimeout(poll, every)
}

onEnd.add(() => {
  clearTimeout(polling)
  live.value = null
  today.value = null
  stale.value = ''
  shownNode.value = ''
  readAt = 0
})
