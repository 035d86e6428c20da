/** History of a supplier from the reports: by hour or day, publisher, domain and seat. */
import { useState } from 'preact/hooks'
import { Chart } from '../chart.js'
import { loaded, Name, number, table, text, useRead } from '../components.js'
import { dateOf, money, percent, startOfDay, time, whole, zone } from '../format.js'
import { Pick, withValue } from '../forms.js'
import { html } from '../html.js'
import { route, setQuery } from '../route.js'
import { call, request } from '../session.js'
import { currency, reportsEvery } from '../state.js'

/** @import { ReportRow } from '../../../reports/columns.ts' */
/** @typedef {{ from: string, to: string }} Range dates, `to` inclusive */
/** @typedef {Record<string, string>} Names of publisher, domain and seat: what the history is limited to */

const hour = 3_600_000
const day = 24 * hour

/**
 * The times at which the hours or days of a range begin, in seconds, up to now. A report has rows for some of them only.
 * @param {Range} range @param {string} by
 */
function bucketsOf(range, by) {
  const from = startOfDay(range.from)
  const to = Math.min(Date.now(), startOfDay(range.to) + 1.5 * day)
  const end = startOfDay(dateOf(startOfDay(range.to) + 1.5 * day))
  const times = []
  // hours are those of UTC; days may have 23 or 25 hours
  for (let at = by === 'hour' ? from - (from % hour) : from; at < to && at < end; ) {
    times.push(at / 1000)
    at = by === 'hour' ? at + hour : startOfDay(dateOf(at + 1.5 * day))
  }
  return times
}

/** The path of the report, for whole days in the time zone of the page. @param {Range} range @param {Record<string, string>} more */
function reportPath(range, more) {
  const from = startOfDay(range.from)
  // 36 hours later is within the next day, also when clocks change
  const to = startOfDay(dateOf(startOfDay(range.to) + 1.5 * day))
  const query = { from: String(from), to: String(to), tz: zone.value, ...more }
  return `/api/svc/reports/margin?${new URLSearchParams(query)}`
}

/** @param {Range} range @param {Record<string, string>} more */
const useReport = (range, more) => {
  const path = reportPath(range, more)
  return useRead(() => /** @type {Promise<ReportRow[]>} */ (call(path)), [path], reportsEvery)
}

/** Saves the report as a CSV file. @param {string} path */
async function saveCsv(path) {
  const response = await request(path)
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1]
  const url = URL.createObjectURL(await response.blob())
  const link = document.createElement('a')
  link.href = url
  link.download = name ?? 'margin.csv'
  link.click()
  URL.revokeObjectURL(url)
}

/** @typedef {{ of: (row: ReportRow) => number | null, format: (value: number | null | undefined) => string }} Measure */

const amount = (/** @type {number | null | undefined} */ value) => money(value, currency.value)
/** @type {Measure} */
const margin = { of: (row) => Number(row.margin), format: amount }
/** @type {Readonly<Record<string, Measure>>} */
const measures = {
  Margin: margin,
  Revenue: { of: (row) => Number(row.revenue), format: amount },
  Bids: { of: (row) => row.decided, format: whole },
  Wins: { of: (row) => row.wins, format: whole },
  'Win rate': { of: (row) => (row.decided === 0 ? null : row.wins / row.decided), format: percent },
}

/** @param {string} name @param {import('../components.js').Column<ReportRow>['cell']} cell @returns {import('../components.js').Column<ReportRow>[]} */
const columnsOf = (name, cell) => [
  text(name, cell),
  number('Margin', ({ margin }) => money(margin, currency.value)),
  number(
    'of revenue',
    ({ margin, revenue }) =>
      percent(Number(revenue) === 0 ? null : Number(margin) / Number(revenue)),
    { wide: true },
  ),
  number('Revenue', ({ revenue }) => money(revenue, currency.value), { wide: true }),
  number('Bids', ({ decided }) => whole(decided)),
  number('Wins', ({ wins }) => whole(wins), { wide: true }),
  number('Win rate', (row) => percent(measures['Win rate']?.of(row)), { wide: true }),
]

/** The values of all hours or days; null where the report has no row. @param {ReportRow[]} rows @param {number[]} times @param {Measure} measure */
function seriesOf(rows, times, { of }) {
  const byTime = new Map(rows.map((row) => [Date.parse(row.key) / 1000, of(row)]))
  return { times, values: times.map((at) => byTime.get(at) ?? null) }
}

/** The range of the address; `days` is empty if it has dates. @returns {Range & { days: string }} */
function rangeOf() {
  const { query } = route.value
  const [from, to] = [query.get('from'), query.get('to')]
  if (from !== null && to !== null && from <= to) return { from, to, days: '' }
  const days = query.get('days') ?? '1'
  const count = Math.min(400, Number(days) || 1)
  return { from: dateOf(Date.now() - (count - 1) * day), to: dateOf(Date.now()), days }
}

/** @param {{ range: Range, more: Record<string, string> }} props */
function Csv({ range, more }) {
  const [fault, setFault] = useState('')
  const save = () =>
    saveCsv(reportPath(range, { ...more, format: 'csv' })).then(
      () => setFault(''),
      (error) => setFault(`Not saved: ${error.message}`),
    )
  return html`<button type="button" onClick=${save} aria-label=${`Save CSV by ${more['by']}`}>CSV</button>
    <span class="fault" role="alert">${fault}</span>`
}

const most = 50
/** @typedef {{ by: string, title: string, none: string, names?: Readonly<Record<string, string>> }} Dimension */
/** @type {readonly Dimension[]} */
const dimensions = [
  { by: 'publisher', title: 'Publishers', none: 'none' },
  { by: 'domain', title: 'Domains', none: 'none' },
  { by: 'seat', title: 'Seats', none: 'not named' },
  {
    by: 'via',
    title: 'Sources',
    none: 'not known',
    names: { proxy: 'Bid responses', standalone: 'Standalone calls', agent: 'Agent calls' },
  },
]

/** @param {{ ssp: string, range: Range, names: Names, of: Dimension }} props */
function Top({ ssp, range, names, of: { by, title, none, names: words = {} } }) {
  const { [by]: chosen, ...others } = names
  const more = { ssp, by, ...others }
  const rows = useReport(range, { ...more, top: String(most) })
  const columns = columnsOf(title.slice(0, -1), ({ key }) =>
    key === ''
      ? none
      : html`<button type="button" class="link" aria-pressed=${chosen === key}
          onClick=${() => setQuery({ [by]: chosen === key ? '' : key })}><${Name} name=${words[key] ?? key} /></button>`,
  )
  return html`<section><div class="row"><h2>${title}</h2><${Csv} range=${range} more=${more} /></div>
    ${loaded(
      rows,
      (
        all,
      ) => html`${table({ label: title, rows: all, columns, keyOf: ({ key }) => key, size: 'tall' })}
      ${all.length === most && html`<p class="soft">The ${most} with the largest margin. The file has all.</p>`}`,
      'No bids in this range.',
    )}
  </section>`
}

/** @param {{ ssp: string }} props */
export function History({ ssp }) {
  const range = rangeOf()
  const { query } = route.value
  const [shown, setShown] = useState('Margin')
  const by = query.get('by') ?? (range.from === range.to ? 'hour' : 'day')
  /** @type {Names} */
  const names = Object.fromEntries(
    [...query].filter(([name]) => dimensions.some(({ by }) => by === name)),
  )
  const more = { ssp, by, ...names }
  const rows = useReport(range, more)
  const measure = measures[shown] ?? margin
  const columns = columnsOf(by === 'day' ? 'Day' : 'Hour', ({ key }) =>
    by === 'day' ? dateOf(Date.parse(key)) : time(key),
  )
  const choose = (/** @type {'from' | 'to'} */ name) =>
    withValue((date) => setQuery({ days: '', from: range.from, to: range.to, [name]: date }))
  return html`<section class="sheet" aria-label="History"><div class="row"><h2>History</h2>
      <div class="row" role="group" aria-label="Range">${Object.entries({
        1: 'Today',
        7: '7 days',
        30: '30 days',
      }).map(
        ([days, label]) =>
          html`<button key=${days} type="button" aria-pressed=${range.days === days}
          onClick=${() => setQuery({ days, from: '', to: '', by: '' })}>${label}</button>`,
      )}</div>
      <label class="pick">from <input type="date" value=${range.from} max=${range.to} onChange=${choose('from')} /></label>
      <label class="pick">to <input type="date" value=${range.to} min=${range.from} max=${dateOf(Date.now())} onChange=${choose('to')} /></label>
      <${Pick} label="by" value=${by} options=${['hour', 'day'].map((name) => [name, name])} pick=${(/** @type {string} */ chosen) => setQuery({ by: chosen })} />
      <${Pick} label="shown" value=${shown} options=${Object.keys(measures).map((name) => [name, name])} pick=${setShown} />
      <${Csv} range=${range} more=${more} />
      ${Object.entries(names).map(
        ([name, value]) =>
          html`<button key=${name} type="button" class="tag" onClick=${() => setQuery({ [name]: '' })}
          aria-label=${`Only ${name} ${value}: show all`}>Only ${name} ${value} <span aria-hidden="true">×</span></button>`,
      )}
      <span class="soft">all nodes, days of ${zone}</span></div>
    ${loaded(
      rows,
      (all) => html`
      <${Chart} label=${shown} ...${seriesOf(all, bucketsOf(range, by), measure)} by=${by}
        isRunning=${range.to >= dateOf(Date.now())} format=${measure.format} />
      <details><summary>The same as a table</summary>${table({ label: 'History as a table', rows: all, columns, keyOf: ({ key }) => key })}</details>`,
      'No bids and no wins in this range.',
    )}
    <div class="columns tables">${dimensions.map((of) => html`<${Top} key=${of.by} ssp=${ssp} range=${range} names=${names} of=${of} />`)}</div>
  </section>`
}
