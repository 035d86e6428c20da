/** All suppliers: one row each, problems first. */
import { signal } from '@preact/signals'
import { amounts, levels, Name, number, Term, table, text } from '../components.js'
import { absent, duration, integer, percent, rate } from '../format.js'
import { Search } from '../forms.js'
import { html } from '../html.js'
import { funnel, live, may, ready, seesAll, shownNode, today } from '../state.js'
import { Earned } from './funnel.js'
import { HoldButton } from './holds.js'
import {
  failedShare,
  Health,
  knownKept,
  NoSupplier,
  refusedShare,
  shareOf,
} from './supplier-common.js'

/** @import { ListedIntegration } from '../../../fleet/live-schema.ts' */
/** @import { Column } from '../components.js' */

const search = signal('')
const sort = signal({ by: 'State', down: false })
/** The only state that is shown; empty: all. @type {import('@preact/signals').Signal<keyof typeof levels | ''>} */
const level = signal('')
const ranks = { bad: 0, warn: 1, ok: 2, none: 3 }
const opdWords = { on: '', shadow: 'in shadow', off: 'OPD off', invalid: 'OPD off: invalid' }

const nothing = { margin: '0', decided: 0, wins: 0 }
/** Since midnight. With OPD off no bids are decided, so nothing is known. @param {ListedIntegration} row */
const todayOf = ({ ssp, opd }) =>
  today.value?.get(ssp) ??
  (today.value === null || opd === null || opd.state === 'off' ? null : nothing)

/** The sum of a figure of today; null if it is not known yet. @param {ListedIntegration[]} rows @param {'margin' | 'decided' | 'wins'} name */
const sumToday = (rows, name) =>
  today.value && rows.reduce((sum, row) => sum + Number(todayOf(row)?.[name] ?? 0), 0)

/** Whether the notices of a supplier do not prove its margin. @param {string} ssp */
const isUnproven = (ssp) => funnel.value?.unchecked.includes(ssp) ?? false

/** @param {number} wins @param {number} bids */
const winsCell = (wins, bids) =>
  html`${integer(wins)}<small>of ${integer(bids)} ${bids === 1 ? 'bid' : 'bids'}</small>`

const failures = Object.entries({ timeout: 'time-outs', upstream_error: 'errors' })

/** Kept wins or kept spend, with its interval and its floor.
 * @param {string} name @param {'kept' | 'keptSpend'} what @param {'minWinRate' | 'minSpend'} least @returns {Column<ListedIntegration>} */
const keptColumn = (name, what, least) =>
  number(
    name,
    ({ modes, opd }) => {
      const kept = knownKept(modes[0]?.[what])
      const floor = opd?.state === 'on' ? `floor ${percent(opd[least])}` : ''
      return kept === null
        ? html`${absent}${floor && html`<small>${floor}</small>`}`
        : html`<strong class=${floor && kept.level}>${percent(kept.at)}</strong>
          <small>${percent(kept.lower)} to ${percent(kept.upper)}</small><small>${floor}</small>`
    },
    { by: ({ modes }) => knownKept(modes[0]?.[what])?.at ?? null },
  )

/** What is wrong, and what to do. @param {ListedIntegration['health']['reasons'][number] | undefined} reason */
const reasonText = (reason) => (reason?.fix ? `${reason.text}. ${reason.fix}` : reason?.text)

/** @type {Column<ListedIntegration>[]} */
const columns = [
  text(
    'Supplier',
    ({
      ssp,
      name,
      opd,
    }) => html`<a href=${`#/supplier/${encodeURIComponent(ssp)}`}><${Name} name=${name} /></a>
        ${opd && opd.state !== 'on' && html`<small class="tag">${opdWords[opd.state]}</small>`}`,
    { by: ({ name }) => name.toLowerCase(), total: (rows) => `Total of ${integer(rows.length)}` },
  ),
  text(
    'State',
    (row) => {
      const { level, reasons } = row.health
      return html`<${Health} supplier=${row} />${
        level !== 'none' &&
        reasons.length > 0 &&
        html`<small class="reason">${reasonText(reasons[0])}</small>${
          reasons.length > 1 &&
          html`<details class="reason"><summary>${integer(reasons.length - 1)} more</summary>
            <ul>${reasons.slice(1).map((reason) => html`<li key=${reason.text}>${reasonText(reason)}</li>`)}</ul></details>`
        }`
      }`
    },
    { by: ({ health }) => ranks[health.level] },
  ),
  amounts('Margin today', (row) => todayOf(row)?.margin ?? null, {
    cell: ({ ssp }) => isUnproven(ssp) && html`<small>not proven</small>`,
    sum: (rows) =>
      sumToday(
        rows.filter(({ ssp }) => !isUnproven(ssp)),
        'margin',
      ),
    total: (rows) => rows.some(({ ssp }) => isUnproven(ssp)) && html`<small>of proven ones</small>`,
  }),
  keptColumn('Kept wins', 'kept', 'minWinRate'),
  keptColumn('Kept spend', 'keptSpend', 'minSpend'),
  number(
    'Wins today',
    (row) => {
      const sums = todayOf(row)
      return sums === null ? absent : winsCell(sums.wins, sums.decided)
    },
    {
      wide: true,
      by: (row) => todayOf(row)?.wins ?? null,
      total(rows) {
        const wins = sumToday(rows, 'wins')
        return wins === null ? absent : winsCell(wins, sumToday(rows, 'decided') ?? 0)
      },
    },
  ),
  number(
    'Requests / s',
    (row) =>
      html`${row.total === 0 ? '0' : rate(row.rate)}${row.refused > 0 && html`<small>${percent(refusedShare([row]))} refused</small>`}`,
    {
      by: (row) => row.rate,
      total: (rows) => {
        const refused = refusedShare(rows)
        return html`${rate(rows.reduce((sum, row) => sum + row.rate, 0))}${(refused ?? 0) > 0 && html`<small>${percent(refused)} refused</small>`}`
      },
    },
  ),
  number('No bid', (row) => percent(shareOf([row], 'no_bid')), {
    widest: true,
    by: (row) => shareOf([row], 'no_bid'),
    total: (rows) => percent(shareOf(rows, 'no_bid')),
  }),
  number(
    'Failed',
    (row) =>
      html`${percent(failedShare([row]))}${failures.map(
        ([name, word]) =>
          (row.requests[name] ?? 0) > 0 &&
          html`<small key=${name}>${percent(shareOf([row], name))} ${word}</small>`,
      )}`,
    {
      by: (row) => failedShare([row]),
      total: (rows) => percent(failedShare(rows)),
    },
  ),
  number(
    'p50 / p99',
    ({ p50, p99 }) =>
      p50 === null ? absent : html`${duration(p50)}<small>${duration(p99)}</small>`,
    { wide: true, by: ({ p99 }) => p99 },
  ),
  text('Hold', ({ ssp, name, held, opd }) => {
    if (held === 'all') return 'all on hold'
    // nothing is priced, so there is nothing to hold
    if (held === 'no' && (opd === null || opd.state === 'off')) return absent
    return html`${held === 'own' && html`<span class="tag">on hold</span> `}<${HoldButton} ssp=${ssp} name=${name} held=${held === 'own'} short />`
  }),
]

/** Rows without a value are last. @param {ListedIntegration[]} rows */
function sorted(rows) {
  const { by, down } = sort.value
  const figureOf = columns.find(({ name }) => name === by)?.by ?? (() => 0)
  return rows.toSorted((one, other) => {
    const [a, b] = [figureOf(one), figureOf(other)]
    if (a === b) return one.name.localeCompare(other.name, undefined, { numeric: true })
    if (a === null) return 1
    if (b === null) return -1
    return (a < b ? -1 : 1) * (down ? -1 : 1)
  })
}

/** Texts begin with the first, numbers with the largest. @param {Column<ListedIntegration>} column */
function sortBy({ name, text }) {
  const { by, down } = sort.value
  sort.value = { by: name, down: by === name ? !down : !text }
}

/** The number of suppliers in each state, as buttons that show these alone. */
function Counts() {
  const healths = live.value?.integrations.map(({ health }) => health.level) ?? []
  return html`<div class="counts" role="group" aria-label="Only suppliers with the state">${
    /** @type {const} */ (['bad', 'warn', 'ok', 'none']).map((shown) => {
      const count = healths.filter((health) => health === shown).length
      const only = level.value === shown
      return (
        (count > 0 || only) &&
        html`<button key=${shown} type="button" class=${`level ${shown}`} aria-pressed=${only}
          onClick=${() => {
            level.value = only ? '' : shown
          }}>${levels[shown]}: ${integer(count)}</button>`
      )
    })
  }</div>`
}

export function Suppliers() {
  const now = live.value
  if (now === null || !ready.value) return html`<h1>Suppliers</h1><p class="soft">Loading…</p>`
  const sought = search.value.trim().toLowerCase()
  const rows = sorted(
    now.integrations.filter(
      ({ ssp, name, account, health }) =>
        (level.value === '' || health.level === level.value) &&
        `${ssp} ${name} ${account ?? ''}`.toLowerCase().includes(sought),
    ),
  )
  const minutes = Math.round(Math.max(...now.nodes.map(({ window }) => window)) / 60)
  const unplaced = Object.entries(now.unplaced)
  return html`<div class="row"><h1>Suppliers</h1>
      <${Counts} />
      ${seesAll.value && html`<${HoldButton} ssp="*" name="all integrations" held=${now.heldAll} />`}
    </div>
    <${Earned} />
    ${now.heldAll && html`<p class="box warn">All integrations are on hold: every bid leaves at its own price.</p>`}
    <div class="row">
      <${Search} value=${search.value} enter=${(/** @type {string} */ text) => {
        search.value = text
      }} />
      <p class="soft">Requests and times: ${minutes < 1 ? 'since the start' : `the last ${minutes} min`}, ${now.scope === 'all nodes' ? `all nodes (${now.nodes.length})` : `node ${shownNode}`}. Bids, wins and margin: today, all nodes.</p>
    </div>
    ${
      now.integrations.length === 0
        ? html`<${NoSupplier} />`
        : rows.length === 0
          ? html`<p class="box">No supplier ${level.value === '' ? '' : `with the state ${levels[level.value]} `}matches${sought === '' ? '' : ` “${search}”`}.</p>`
          : table({
              label: 'Suppliers',
              rows,
              keyOf: ({ ssp }) => ssp,
              size: 'fills',
              columns: may('operator') ? columns : columns.slice(0, -1),
              sort: sort.value,
              onSort: sortBy,
            })
    }
    ${
      unplaced.length > 0 &&
      html`<p class="soft"><${Term} name="Notices" /> without a supplier: ${unplaced
        .map(([status, count]) => `${integer(count)} ${status}`)
        .join(', ')}. Rejected ones carry no valid credential or price.</p>`
    }`
}
