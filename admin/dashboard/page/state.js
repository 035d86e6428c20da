/** The figures of the page: polled while someone is logged in. Screens read the signals. */
import { computed, effect, signal } from '@preact/signals'
import { dateOf, startOfDay, zone } from './format.js'
import { route } from './route.js'
import { get, onEnd, tokens } from './session.js'

/** @import { Funnel } from '../../fleet/funnel-route.ts' */
/** @import { LiveIntegration, LiveListAnswer, ListedIntegration } from '../../fleet/live-schema.ts' */
/** @import { ReportRow } from '../../reports/columns.ts' */

const every = 3000
/** Milliseconds from which on an answer is late, and until the page asks again. */
const [late, longest] = [5000, 15_000]
/** Reports read the store, and change slowly. */
export const reportsEvery = 20_000

/** What the list shows of all suppliers. @type {import('@preact/signals').Signal<LiveListAnswer | null>} */
export const live = signal(null)
/** All figures of the supplier whose page is shown. @type {import('@preact/signals').Signal<LiveIntegration | null>} */
const detail = signal(null)
/** Why the figures are not up to date; empty if they are. */
export const stale = signal('')
/** The node that is shown; empty: all nodes. */
export const shownNode = signal('')
/** By supplier; null until read. @type {import('@preact/signals').Signal<Map<string, Pick<ReportRow, 'margin' | 'decided' | 'wins'>> | null>} */
export const today = signal(null)

/** What OPD earned today, and the suppliers whose bids stop; null until read. @type {import('@preact/signals').Signal<Funnel | null>} */
export const funnel = signal(null)
/** Whether the first answers are there, or late: the board is drawn once, so that nothing moves under the pointer. */
export const ready = signal(false)
/** Milliseconds. */
const longestWait = 2000

const ranks = ['viewer', 'api', 'operator']
/** Whether the caller has a role. @param {'viewer' | 'api' | 'operator'} role */
export const may = (role) => ranks.indexOf(live.value?.caller.role ?? '') >= ranks.indexOf(role)
export const seesAll = computed(() => live.value?.caller.account === '*')
export const currency = computed(() => live.value?.currency ?? 'USD')

/** @param {string} id @returns {ListedIntegration | undefined} */
export const integration = (id) => live.value?.integrations.find(({ ssp }) => ssp === id)

/** All its figures; null until they are read. @param {string} id @returns {LiveIntegration | null} */
export const detailOf = (id) => (detail.value?.ssp === id ? detail.value : null)

/** The suppliers that the caller sees, to choose from. @returns {[value: string, label: string][]} */
export const supplierOptions = () =>
  live.value?.integrations.map(({ ssp, name }) => [ssp, name]) ?? []

/** An answer has only what has changed since the last one. @param {LiveListAnswer} next @returns {LiveListAnswer} */
function merged(next) {
  const known = live.peek()
  if (next.whole || known === null) return next
  const changed = new Map(next.integrations.map((row) => [row.ssp, row]))
  const kept = known.integrations.map((row) => {
    const fresh = changed.get(row.ssp)
    changed.delete(row.ssp)
    return fresh ?? row
  })
  return { ...next, integrations: [...kept, ...changed.values()] }
}

/** The supplier whose page is shown; '' on other screens. */
const shownSupplier = () => (route.value.screen === 'supplier' ? (route.value.rest[0] ?? '') : '')

/** Reads all figures of the supplier that is shown, if the caller may see it. @param {string} ssp @param {string} node */
async function readDetail(ssp, node) {
  if (ssp === '' || integration(ssp) === undefined) return
  const query = new URLSearchParams({ ssp, ...(node === '' ? {} : { node }) })
  const { integrations } = await get(`/api/svc/live/?${query}`, longest)
  if (tokens.value !== null && ssp === shownSupplier() && node === shownNode.value)
    detail.value = integrations[0] ?? null
}

export async function readLive() {
  const node = shownNode.value
  const query = new URLSearchParams(node === '' ? { since: live.value?.tag ?? '' } : { node })
  const next = await get(`/api/svc/live/list/?${query}`, longest)
  // the user may have logged out or chosen another node meanwhile
  if (tokens.value === null || node !== shownNode.value) return
  live.value = merged(next)
  await readDetail(shownSupplier(), node)
  stale.value = ''
}

effect(() => {
  const ssp = shownSupplier()
  // the poll shows what is wrong, if this fails
  if (live.peek() !== null && detail.peek()?.ssp !== ssp)
    void readDetail(ssp, shownNode.peek()).catch(() => {})
})

/** Shows the figures of one node, or of all. @param {string} node */
export function showNode(node) {
  shownNode.value = node
  void poll()
}

let readAt = 0
let readFor = ''

/** Each is shown as soon as it is there: a report takes longer than what stops the bids. */
async function readToday() {
  const from = startOfDay(dateOf(Date.now()))
  const margins = get(`/api/svc/reports/margin?by=ssp&from=${from}`).then((rows) => {
    if (tokens.value === null) return
    today.value = new Map(rows.map((/** @type {ReportRow} */ row) => [row.key, row]))
  })
  const faults = get('/api/svc/funnel/?only=faults').then((found) => {
    if (tokens.value !== null) funnel.value = found
  })
  await Promise.all([margins, faults])
  readAt = Date.now()
  readFor = zone.value
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let polling

export async function poll() {
  clearTimeout(polling)
  if (tokens.value === null) return
  const waiting = setTimeout(() => {
    ready.value = tokens.value !== null
  }, longestWait)
  const slow = setTimeout(() => {
    stale.value = `bidweir takes longer than ${late / 1000} s to answer`
  }, late)
  try {
    await readLive()
    clearTimeout(slow)
    if (Date.now() - readAt > reportsEvery || readFor !== zone.value) await readToday()
  } catch (error) {
    const { status, message } = /** @type {import('./session.js').ApiError} */ (error)
    // a node that has ended: back to all
    if (status === 404) shownNode.value = ''
    stale.value = message
  }
  clearTimeout(slow)
  clearTimeout(waiting)
  clearTimeout(polling)
  ready.value = tokens.value !== null
  if (tokens.value !== null) polling = setTimeout(poll, every)
}

onEnd.add(() => {
  clearTimeout(polling)
  live.value = null
  detail.value = null
  today.value = null
  funnel.value = null
  ready.value = false
  stale.value = ''
  shownNode.value = ''
  readAt = 0
})
