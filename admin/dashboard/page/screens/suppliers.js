/** All suppliers: one row each, problems first. */
import { signal } from '@preact/signals'
import { absent, duration, money, percent, rate, whole } from '../format.js'
import { html } from '../html.js'
import { Level, levels, Table, Term } from '../parts.js'
import { currency, live, may, seesAll, shownNode, today } from '../state.js'
import { HoldButton } from './hold.js'
import { keptCell } from './kept.js'

/** @import { LiveIntegration } from '../../../fleet/live.ts' */

const search = signal('')
const sort = signal({ by: 'State', down: false })
/** The only state that is shown; empty: all. */
const level = signal('')
const ranks = { bad: 0, warn: 1, ok: 2, none: 3 }

/** @param {LiveIntegration} row */
export const totalOf = ({ requests }) => Object.values(requests).reduce((sum, n) => sum + n, 0)
/** The share of requests with these outcomes; null without requests. @param {LiveIntegration} row @param {string[]} names */
export function shareOf(row, ...names) {
  const total = totalOf(row)
  return total === 0
    ? null
    : names.reduce((sum, name) => sum + (row.requests[name] ?? 0), 0) / total
}
const opdWords = { on: '', shadow: 'in shadow', off: 'OPD off', invalid: 'OPD off: invalid' }

const nothing = { margin: '0', decided: 0, wins: 0 }
/** Since midnight. With OPD off no bids are decided, so nothing is known. @param {LiveIntegration} row */
const todayOf = ({ ssp, opd }) =>
  today.value?.get(ssp) ??
  (today.value === null || opd === null || opd.state === 'off' ? null : nothing)

/** By column: what it sorts by; null is last. @type {Readonly<Record<string, (row: LiveIntegration) => number | string | null>>} */
const values = {
  State: (row) => ranks[row.health.level],
  Supplier: (row) => row.name.toLowerCase(),
  'Requests / s': (row) => row.rate,
  'No bid': (row) => shareOf(row, 'no_bid'),
  Failed: (row) => shareOf(row, 'timeout', 'upstream_error'),
  'p50 / p99': (row) => row.p99,
  'Wins today': (row) => todayOf(row)?.wins ?? null,
  'Margin today': (row) => (todayOf(row) === null ? null : Number(todayOf(row)?.margin)),
  'Kept wins': (row) => row.modes[0]?.kept?.at ?? null,
  'Kept spend': (row) => row.modes[0]?.keptSpend?.at ?? null,
}

/** @param {LiveIntegration[]} rows */
function sorted(rows) {
  const { by, down } = sort.value
  const of = values[by] ?? (() => 0)
  return rows.toSorted((one, other) => {
    const [a, b] = [of(one), of(other)]
    if (a === b || (a === null && b === null))
      return one.name.localeCompare(other.name, undefined, { numeric: true })
    if (a === null) return 1
    if (b === null) return -1
    return (a < b ? -1 : 1) * (down ? -1 : 1)
  })
}

const columns = [
  {
    name: 'Supplier',
    text: true,
    sortable: true,
    cell: (/** @type {LiveIntegration} */ { ssp, name, opd }) =>
      html`<a href=${`#/supplier/${encodeURIComponent(ssp)}`}>${name}</a>
        ${opd && opd.state !== 'on' && html`<small class="tag">${opdWords[opd.state]}</small>`}`,
  },
  {
    name: 'State',
    text: true,
    sortable: true,
    cell: (/** @type {LiveIntegration} */ { health }) =>
      html`<${Level} level=${health.level} label=${health.level === 'none' ? 'No requests' : undefined} />${
        health.level !== 'none' &&
        health.reasons.length > 0 &&
        html`<small class="reason">${health.reasons[0]}${health.reasons.length > 1 && ` (+${health.reasons.length - 1})`}</small>`
      }`,
  },
  {
    name: 'Requests / s',
    sortable: true,
    cell: (/** @type {LiveIntegration} */ row) => (totalOf(row) === 0 ? '0' : rate(row.rate)),
  },
  {
    name: 'No bid',
    sortable: true,
    wide: true,
    cell: (/** @type {LiveIntegration} */ row) => percent(shareOf(row, 'no_bid')),
  },
  {
    name: 'Failed',
    sortable: true,
    cell: (/** @type {LiveIntegration} */ row) =>
      html`${percent(shareOf(row, 'timeout', 'upstream_error'))}${Object.entries({
        timeout: 'time-outs',
        upstream_error: 'errors',
      }).map(
        ([name, word]) =>
          (row.requests[name] ?? 0) > 0 &&
          html`<small key=${name}>${percent(shareOf(row, name))} ${word}</small>`,
      )}`,
  },
  {
    name: 'p50 / p99',
    sortable: true,
    wide: true,
    cell: (/** @type {LiveIntegration} */ { p50, p99 }) =>
      p50 === null ? absent : html`${duration(p50)}<small>${duration(p99)}</small>`,
  },
  {
    name: 'Wins today',
    sortable: true,
    wide: true,
    cell: (/** @type {LiveIntegration} */ row) => {
      const of = todayOf(row)
      return of === null
        ? absent
        : html`${whole(of.wins)}<small>of ${whole(of.decided)} bids</small>`
    },
  },
  {
    name: 'Margin today',
    sortable: true,
    cell: (/** @type {LiveIntegration} */ row) => money(todayOf(row)?.margin, currency.value),
  },
  {
    name: 'Kept wins',
    sortable: true,
    cell: (/** @type {LiveIntegration} */ row) => keptCell(row, 'kept'),
  },
  {
    name: 'Kept spend',
    sortable: true,
    cell: (/** @type {LiveIntegration} */ row) => keptCell(row, 'keptSpend'),
  },
  {
    name: 'Hold',
    text: true,
    cell: (/** @type {LiveIntegration} */ { ssp, name, held, opd }) => {
      if (held === 'all') return 'all on hold'
      // nothing is priced, so there is nothing to hold
      if (held === 'no' && (opd === null || opd.state === 'off')) return absent
      return html`${held === 'own' && html`<span class="tag">on hold</span> `}<${HoldButton} ssp=${ssp} name=${name} held=${held === 'own'} short />`
    },
  },
]

/** The totals of the shown rows. @param {LiveIntegration[]} rows */
function totals(rows) {
  const sum = (/** @type {(row: LiveIntegration) => number} */ of) =>
    rows.reduce((all, row) => all + of(row), 0)
  const requests = sum(totalOf)
  const share = (/** @type {string[]} */ ...names) =>
    requests === 0
      ? null
      : sum((row) => names.reduce((n, name) => n + (row.requests[name] ?? 0), 0)) / requests
  const known = today.value !== null
  const margin = sum((row) => Number(todayOf(row)?.margin ?? 0))
  return [
    `Total of ${rows.length}`,
    '',
    rate(sum(({ rate: each }) => each)),
    percent(share('no_bid')),
    percent(share('timeout', 'upstream_error')),
    '',
    known
      ? html`${whole(sum((row) => todayOf(row)?.wins ?? 0))}<small>of ${whole(sum((row) => todayOf(row)?.decided ?? 0))} bids</small>`
      : absent,
    money(known ? margin : null, currency.value),
    '',
    '',
    '',
  ]
}

/** @param {string} by */
function sortBy(by) {
  const same = sort.value.by === by
  const first = by === 'State' || by === 'Supplier'
  sort.value = { by, down: same ? !sort.value.down : !first }
}

export function Suppliers() {
  const now = live.value
  if (now === null) return null
  const text = search.value.trim().toLowerCase()
  const rows = sorted(
    now.integrations.filter(
      ({ ssp, name, account, health }) =>
        (level.value === '' || health.level === level.value) &&
        (text === '' || `${ssp} ${name} ${account ?? ''}`.toLowerCase().includes(text)),
    ),
  )
  const counts = { bad: 0, warn: 0, ok: 0, none: 0 }
  for (const { health } of now.integrations) counts[health.level] += 1
  const minutes = Math.round(Math.max(...now.nodes.map(({ window }) => window)) / 60)
  return html`<div class="row"><h1>Suppliers</h1>
      <div class="counts" role="group" aria-label="Only suppliers with the state">${
        /** @type {const} */ (['bad', 'warn', 'ok', 'none']).map(
          (each) =>
            (counts[each] > 0 || level.value === each) &&
            html`<button key=${each} type="button" class=${`level ${each}`} aria-pressed=${level.value === each}
              onClick=${() => {
                level.value = level.value === each ? '' : each
              }}>${levels[each]}: ${whole(counts[each])}</button>`,
        )
      }</div>
      ${seesAll.value && html`<${HoldButton} ssp="*" name="all integrations" held=${now.heldAll} />`}
    </div>
    ${now.heldAll && html`<p class="box warn">All integrations are on hold: every bid leaves at its own price.</p>`}
    <div class="row">
      <label class="search">Search <input type="search" value=${search.value} onInput=${(
        /** @type {Event} */ event,
      ) => {
        search.value = /** @type {HTMLInputElement} */ (event.target).value
      }} /></label>
      <p class="soft">Requests and times: ${minutes < 1 ? 'since the start' : `the last ${minutes} min`}, ${now.scope === 'all nodes' ? `all nodes (${now.nodes.length})` : `node ${shownNode}`}. Bids, wins and margin: today, all nodes.</p>
    </div>
    ${
      now.integrations.length === 0
        ? html`<p class="box">No supplier belongs to the account ${now.caller.account}. Suppliers are listed in the configuration file; each names its account.</p>`
        : rows.length === 0
          ? html`<p class="box">No supplier ${level.value === '' ? '' : `with the state ${levels[/** @type {keyof typeof levels} */ (level.value)]} `}matches${text === '' ? '' : ` “${search}”`}.</p>`
          : html`<${Table} label="Suppliers" fills rows=${rows} keyOf=${(/** @type {LiveIntegration} */ { ssp }) => ssp}
              columns=${may('operator') ? columns : columns.slice(0, -1)} foot=${totals(rows).slice(0, may('operator') ? undefined : -1)} sort=${sort.value} onSort=${sortBy} />`
    }
    ${
      Object.keys(now.unplaced).length > 0 &&
      html`<p class="soft"><${Term} name="Notices" /> without a supplier: ${Object.entries(
        now.unplaced,
      )
        .map(([status, count]) => `${whole(count)} ${status}`)
        .join(', ')}. Rejected ones carry no valid credential or price.</p>`
    }`
}
