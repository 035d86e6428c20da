/** What the screens of reports share: ranges of days, paths, files, and the hours or days of a range. */
import { useState } from 'preact/hooks'
import { dateOf, startOfDay, zone } from '../format.js'
import { withValue } from '../forms.js'
import { html } from '../html.js'
import { route, setQuery } from '../route.js'
import { request } from '../session.js'

/** @import { ReportRow } from '../../../reports/columns.ts' */
/** @typedef {{ from: string, to: string }} Range dates, `to` inclusive */

const hour = 3_600_000
const day = 24 * hour

/**
 * The times at which the hours or days of a range begin, in seconds, up to now. A report has rows for some of them only.
 * @param {Range} range @param {string} by
 */
export function bucketsOf(range, by) {
  const from = startOfDay(range.from)
  const to = Math.min(Date.now(), startOfDay(range.to) + 1.5 * day)
  const end = startOfDay(dateOf(startOfDay(range.to) + 1.5 * day))
  const times = []
  // hours are those of UTC; days may have 23 or 25 hours
  for (let start = by === 'hour' ? from - (from % hour) : from; start < to && start < end; ) {
    times.push(start / 1000)
    start = by === 'hour' ? start + hour : startOfDay(dateOf(start + 1.5 * day))
  }
  return times
}

/** The path of a report, for whole days in the time zone of the page. @param {string} report @param {Range} range @param {Record<string, string>} more */
export function reportPath(report, range, more) {
  const from = startOfDay(range.from)
  // 36 hours later is within the next day, also when clocks change
  const to = startOfDay(dateOf(startOfDay(range.to) + 1.5 * day))
  const query = { from: String(from), to: String(to), tz: zone.value, ...more }
  return `/api/svc/reports/${report}?${new URLSearchParams(query)}`
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

/** The values of all hours or days; null where the report has no row. @param {ReportRow[]} rows @param {number[]} times @param {(row: ReportRow) => number | null} figureOf */
export function seriesOf(rows, times, figureOf) {
  const byTime = new Map(rows.map((row) => [Date.parse(row.key) / 1000, figureOf(row)]))
  return { times, values: times.map((instant) => byTime.get(instant) ?? null) }
}

/** The range of the address; `days` is empty if it has dates. @returns {Range & { days: string }} */
export function rangeOf() {
  const { query } = route.value
  const [from, to] = [query.get('from'), query.get('to')]
  if (from !== null && to !== null && from <= to) return { from, to, days: '' }
  const days = query.get('days') ?? '1'
  const count = Math.min(400, Number(days) || 1)
  return { from: dateOf(Date.now() - (count - 1) * day), to: dateOf(Date.now()), days }
}

/** @param {{ report: string, range: Range, more: Record<string, string> }} props */
export function Csv({ report, range, more }) {
  const [fault, setFault] = useState('')
  const save = () =>
    saveCsv(reportPath(report, range, { ...more, format: 'csv' })).then(
      () => setFault(''),
      (error) => setFault(`Not saved: ${error.message}`),
    )
  return html`<button type="button" onClick=${save} aria-label=${`Save CSV by ${more['by']}`}>CSV</button>
    <span class="fault" role="alert">${fault}</span>`
}

/** The days of the address. `reset`: what else a choice of days changes in it. @param {{ range: Range & { days: string }, reset?: Record<string, string> }} props */
export function RangePick({ range, reset = {} }) {
  const choose = (/** @type {'from' | 'to'} */ name) =>
    withValue((date) => setQuery({ days: '', from: range.from, to: range.to, [name]: date }))
  return html`<div class="row" role="group" aria-label="Range">${Object.entries({
    1: 'Today',
    7: '7 days',
    30: '30 days',
  }).map(
    ([days, label]) =>
      html`<button key=${days} type="button" aria-pressed=${range.days === days}
          onClick=${() => setQuery({ days, from: '', to: '', ...reset })}>${label}</button>`,
  )}</div>
      <label class="pick">from <input type="date" value=${range.from} max=${range.to} onChange=${choose('from')} /></label>
      <label class="pick">to <input type="date" value=${range.to} min=${range.from} max=${dateOf(Date.now())} onChange=${choose('to')} /></label>`
}
