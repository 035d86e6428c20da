/** History of a supplier from the reports: by hour or day, publisher, domain and seat. */
import { useState } from 'preact/hooks'
import { Chart } from '../chart.js'
import { dateOf, money, percent, startOfDay, time, whole, zone } from '../format.js'
import { html } from '../html.js'
import { Loaded, Table, useRead } from '../parts.js'
import { lastDays, report, saveCsv } from '../reports.js'
import { route, setQuery } from '../route.js'
import { currency } from '../state.js'

/** @typedef {{ key: string, decided: number, wins: number, revenue: string, cleared: string, margin: string }} Row */

/** @typedef {{ of: (row: Row) => number | null, format: (value: number | null | undefined) => string }} Measure */

/** @type {Measure} */
const margin = {
  of: (row) => Number(row.margin),
  format: (value) => money(value, currency.value),
}
/** @type {Readonly<Record<string, Measure>>} */
const measures = {
  Margin: margin,
  Revenue: { of: (row) => Number(row.revenue), format: (value) => money(value, currency.value) },
  Bids: { of: (row) => row.decided, format: whole },
  Wins: { of: (row) => row.wins, format: whole },
  'Win rate': { of: (row) => (row.decided === 0 ? null : row.wins / row.decided), format: percent },
}

const most = 50

/** @typedef {{ publisher?: string, domain?: string, seat?: string }} Filters */
const dimensions = /** @type {const} */ (['publisher', 'domain', 'seat'])

/** The names that the history is limited to, from the address. @returns {Filters} */
function useFilters() {
  const { query } = route.value
  return Object.fromEntries(
    dimensions.flatMap((name) => {
      const value = query.get(name)
      return value === null ? [] : [[name, value]]
    }),
  )
}

const columnsOf = (
  /** @type {string} */ name,
  /** @type {(key: string) => import('../html.js').Shown} */ shown,
) => [
  { name, text: true, cell: (/** @type {Row} */ { key }) => shown(key) },
  { name: 'Bids', cell: (/** @type {Row} */ row) => whole(row.decided) },
  { name: 'Wins', cell: (/** @type {Row} */ row) => whole(row.wins) },
  {
    name: 'Win rate',
    wide: true,
    cell: (/** @type {Row} */ row) => percent(measures['Win rate']?.of(row)),
  },
  {
    name: 'Revenue',
    wide: true,
    cell: (/** @type {Row} */ row) => money(row.revenue, currency.value),
  },
  { name: 'Margin', cell: (/** @type {Row} */ row) => money(row.margin, currency.value) },
  {
    name: 'of revenue',
    wide: true,
    cell: (/** @type {Row} */ row) =>
      percent(Number(row.revenue) === 0 ? null : Number(row.margin) / Number(row.revenue)),
  },
]

function useRange() {
  const { query } = route.value
  const [from, to] = [query.get('from'), query.get('to')]
  if (from !== null && to !== null && from <= to) return { from, to, days: '' }
  const days = query.get('days') ?? '1'
  return { ...lastDays(Math.min(400, Number(days) || 1)), days }
}

/** @param {{ ssp: string, what: string, range: import('../reports.js').Range, by: string, filters: Filters }} props */
function Csv({ ssp, what, range, by, filters }) {
  const [fault, setFault] = useState('')
  const save = () =>
    saveCsv(what, range, { ssp, by, ...filters }).then(
      () => setFault(''),
      (error) => setFault(`Not saved: ${error.message}`),
    )
  return html`<button type="button" onClick=${save} aria-label=${`Save CSV by ${by}`}>CSV</button>
    <span class="fault" role="alert">${fault}</span>`
}

/** @param {{ ssp: string, range: import('../reports.js').Range, by: 'publisher' | 'domain' | 'seat', title: string, none?: string, filters: Filters }} props */
function Top({ ssp, range, by, title, none = 'none', filters }) {
  const { [by]: _own, ...others } = filters
  const rows = useRead(
    () => report('margin', range, { ssp, by, top: String(most), ...others }),
    [ssp, range.from, range.to, by, zone.value, JSON.stringify(others)],
  )
  const cell = (/** @type {string} */ key) =>
    key === ''
      ? none
      : html`<button type="button" class="link" aria-pressed=${filters[by] === key}
          onClick=${() => setQuery({ [by]: filters[by] === key ? '' : key })}>${key}</button>`
  return html`<section><div class="row"><h2>${title}</h2><${Csv} ssp=${ssp} what="margin" range=${range} by=${by} filters=${others} /></div>
    <${Loaded} of=${rows} empty="No bids in this range.">${(
      /** @type {Row[]} */ all,
    ) => html`<${Table}
      label=${title} rows=${all} tall keyOf=${(/** @type {Row} */ { key }) => key}
      columns=${columnsOf(title.slice(0, -1), cell)} />
      ${all.length === most && html`<p class="soft">The ${most} with the largest margin. The file has all.</p>`}`}<//>
  </section>`
}

/** @param {{ ssp: string }} props */
export function History({ ssp }) {
  const range = useRange()
  const [shown, setShown] = useState('Margin')
  const long = range.from !== range.to
  const by = route.value.query.get('by') ?? (long ? 'day' : 'hour')
  const filters = useFilters()
  const rows = useRead(
    () => report('margin', range, { ssp, by, ...filters }),
    [ssp, range.from, range.to, by, zone.value, JSON.stringify(filters)],
  )
  const measure = measures[shown] ?? margin
  const choose = (/** @type {string} */ name) => (/** @type {Event} */ event) =>
    setQuery({
      days: '',
      from: range.from,
      to: range.to,
      [name]: /** @type {HTMLInputElement} */ (event.target).value,
    })
  return html`<section class="sheet" aria-label="History"><div class="row"><h2>History</h2>
      <div class="row" role="group" aria-label="Range">${[
        ['1', 'Today'],
        ['7', '7 days'],
        ['30', '30 days'],
      ].map(
        ([
          days,
          label,
        ]) => html`<button key=${days} type="button" aria-pressed=${range.days === days}
          onClick=${() => setQuery({ days: days ?? '', from: '', to: '', by: '' })}>${label}</button>`,
      )}</div>
      <label class="pick">from <input type="date" value=${range.from} max=${range.to} onChange=${choose('from')} /></label>
      <label class="pick">to <input type="date" value=${range.to} min=${range.from} max=${dateOf(Date.now())} onChange=${choose('to')} /></label>
      <label class="pick">by <select value=${by} onChange=${(/** @type {Event} */ event) =>
        setQuery({ by: /** @type {HTMLSelectElement} */ (event.target).value })}>
        <option value="hour">hour</option><option value="day">day</option></select></label>
      <label class="pick">shown <select value=${shown} onChange=${(/** @type {Event} */ event) =>
        setShown(/** @type {HTMLSelectElement} */ (event.target).value)}>
        ${Object.keys(measures).map((name) => html`<option key=${name}>${name}</option>`)}</select></label>
      <${Csv} ssp=${ssp} what="margin" range=${range} by=${by} filters=${filters} />
      ${Object.entries(filters).map(
        ([
          name,
          value,
        ]) => html`<button key=${name} type="button" class="tag" onClick=${() => setQuery({ [name]: '' })}
          aria-label=${`Only ${name} ${value}: show all`}>Only ${name} ${value} <span aria-hidden="true">×</span></button>`,
      )}
      <span class="soft">all nodes, days of ${zone}</span></div>
    <${Loaded} of=${rows} empty="No bids and no wins in this range.">${(
      /** @type {Row[]} */ all,
    ) => html`
      <${Chart} label=${shown} from=${startOfDay(range.from) / 1000} to=${Math.min(Date.now(), startOfDay(range.to) + 86_400_000) / 1000}
        times=${all.map(({ key }) => Date.parse(key) / 1000)} values=${all.map(measure.of)} format=${measure.format} />
      <details><summary>The same as a table</summary><${Table} label="History as a table" rows=${all} keyOf=${(/** @type {Row} */ { key }) => key}
        columns=${columnsOf(by === 'day' ? 'Day' : 'Hour', (key) => (by === 'day' ? dateOf(Date.parse(key)) : time(key)))} /></details>`}<//>
    <div class="columns"><${Top} ssp=${ssp} range=${range} by="publisher" title="Publishers" filters=${filters} />
      <${Top} ssp=${ssp} range=${range} by="domain" title="Domains" filters=${filters} />
      <${Top} ssp=${ssp} range=${range} by="seat" title="Seats" none="not named" filters=${filters} /></div>
  </section>`
}
