/** Reports over all suppliers, by one or two dimensions. The address keeps the report, so that it can be bookmarked. */
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { Chart } from '../chart.js'
import { amounts, loaded, Name, number, sumOf, table, text, useRead } from '../components.js'
import {
  absent,
  amountOf,
  dateOf,
  integer,
  isZone,
  money,
  percent,
  setZone,
  time,
  zone,
} from '../format.js'
import { Pick, withFields } from '../forms.js'
import { html } from '../html.js'
import { route, setQuery } from '../route.js'
import { call } from '../session.js'
import { currency, integration, live, reportsEvery, supplierOptions } from '../state.js'
import { bucketsOf, Csv, RangePick, rangeOf, reportPath, seriesOf } from './report-common.js'
import { Comparison } from './report-comparison.js'
import { NoSupplier } from './supplier-common.js'

/** @import { ReportRow } from '../../../reports/columns.ts' */
/** @import { Column } from '../components.js' */

/** What a report can be grouped by. @type {Readonly<Record<string, string>>} */
const dimensions = {
  supplier: 'Supplier',
  seat: 'Seat',
  publisher: 'Publisher',
  domain: 'Domain',
  via: 'Source',
  country: 'Country',
  device: 'Device',
  format: 'Format',
  size: 'Size',
  deal: 'Deal',
  hour: 'Hour',
  day: 'Day',
}
const isTime = (/** @type {string} */ by) => by === 'hour' || by === 'day'
/** The parameter that limits a report to a name. @type {Readonly<Record<string, string>>} */
const filters = {
  ...{ supplier: 'ssp', publisher: 'publisher', domain: 'domain', seat: 'seat', via: 'via' },
  ...{ country: 'country', device: 'device', format: 'ad_format', size: 'size', deal: 'deal' },
}
const facets = ['country', 'device', 'format', 'size', 'deal']
const alone = [...facets, 'seat', 'publisher', 'domain']
/** Of the facets a report has one, without seat, publisher and domain. @param {string} one @param {string} other */
const excludes = (one, other) =>
  one !== other &&
  [one, other].every((name) => alone.includes(name)) &&
  [one, other].some((name) => facets.includes(name))

/** The parameters that a dimension excludes, emptied. @param {string} by */
const without = (by) =>
  Object.fromEntries(
    Object.entries(filters).flatMap(([name, filter]) => (excludes(by, name) ? [[filter, '']] : [])),
  )

/** @type {Readonly<Record<string, string>>} */
const devices = {
  ...{ mobile: 'mobile device', pc: 'personal computer', tv: 'connected TV', ooh: 'out of home' },
  ...{ connected: 'connected device', set_top_box: 'set-top box' },
}

/** A name as it is shown. @param {string} by @param {string} key */
function shown(by, key) {
  if (key === '')
    return by === 'deal' ? 'no deal' : by === 'supplier' ? 'notices that name none' : 'not known'
  if (by === 'supplier') return integration(key)?.name ?? key
  return by === 'device' ? (devices[key] ?? key) : key
}

/** Rows that are shown; the file has all. */
const most = 500

const amount = (/** @type {number | string | null | undefined} */ value) =>
  money(value, currency.value)
const share = (/** @type {number | string} */ part, /** @type {number | string} */ total) =>
  Number(total) === 0 ? null : Number(part) / Number(total)

/** An estimate with its interval, if that is narrow enough to say anything.
 * @param {number | null} estimated @param {number | null} low @param {number | null} high */
const estimate = (estimated, low, high) =>
  estimated === null || low === null || high === null || high - low > 1
    ? absent
    : html`${percent(estimated)}<small>${percent(low)} to ${percent(high)}</small>`

/** The part of a margin of hours in which an alert said that the notices of the supplier prove nothing. @param {number} amount */
const unprovenPart = (amount) =>
  amount !== 0 && html`<small>${amountOf(amount, 2)} not proven</small>`

/** A name that limits the report to itself. @param {string} by @param {string} key */
function nameCell(by, key) {
  if (isTime(by)) return by === 'day' ? dateOf(Date.parse(key)) : time(key)
  const name = shown(by, key)
  const filter = filters[by]
  if (key === '' || filter === undefined) return name
  return html`<button type="button" class="link" onClick=${() => setQuery({ [filter]: key })}><${Name} name=${name} /></button>`
}

/** @param {string} name @param {(row: ReportRow) => string} figureOf @param {Partial<Column<ReportRow>>} more */
const sums = (name, figureOf, more = {}) =>
  amounts(name, figureOf, { sum: sumOf(figureOf), ...more })

/** @param {string} by @param {string} then @returns {Column<ReportRow>[]} */
const columnsOf = (by, then) => [
  text(dimensions[by] ?? by, ({ key }) => nameCell(by, key), {
    by: ({ key }) => (isTime(by) ? Date.parse(key) : key),
    total: (rows) => `Total of ${rows.length}`,
  }),
  ...(then === ''
    ? []
    : [
        text(
          dimensions[then] ?? then,
          (/** @type {ReportRow} */ { key2 }) => nameCell(then, key2 ?? ''),
          {
            by: (/** @type {ReportRow} */ { key2 }) => key2,
          },
        ),
      ]),
  sums('Margin', ({ margin }) => margin, {
    cell: ({ unproven, margin }) =>
      unproven !== '0' && unproven === margin
        ? html`<small>not proven</small>`
        : unprovenPart(Number(unproven)),
    total: (rows) =>
      unprovenPart(sumOf((/** @type {ReportRow} */ { unproven }) => unproven)(rows) ?? 0),
  }),
  number('of revenue', ({ margin, revenue }) => percent(share(margin, revenue)), {
    wide: true,
    by: ({ margin, revenue }) => share(margin, revenue),
  }),
  sums('Revenue', ({ revenue }) => revenue),
  number('Bids', ({ decided }) => integer(decided), {
    wide: true,
    by: ({ decided }) => decided,
    total: (rows) => integer(rows.reduce((sum, { decided }) => sum + decided, 0)),
  }),
  number('Wins', ({ wins }) => integer(wins), {
    by: ({ wins }) => wins,
    total: (rows) => integer(rows.reduce((sum, { wins }) => sum + wins, 0)),
  }),
  number('Kept wins', (row) => estimate(row.kept, row.kept_low, row.kept_high), {
    wide: true,
    by: ({ kept }) => kept,
  }),
  number('Kept spend', (row) => estimate(row.kept_spend, row.kept_spend_low, row.kept_spend_high), {
    by: ({ kept_spend }) => kept_spend,
  }),
  number('Discrepancy', ({ difference, out_ba }) => percent(share(difference, out_ba)), {
    wide: true,
    by: ({ difference, out_ba }) => share(difference, out_ba),
  }),
  sums('Cleared minus sent', ({ difference }) => difference, { wide: true }),
]

const sort = signal({ by: 'Margin', down: true })

/** Rows without a value are last. @param {ReportRow[]} rows @param {Column<ReportRow>[]} columns */
function sorted(rows, columns) {
  const { by, down } = sort.value
  const figureOf = columns.find(({ name }) => name === by)?.by
  if (figureOf === undefined) return rows
  return rows.toSorted((one, other) => {
    const [a, b] = [figureOf(one), figureOf(other)]
    if (a === b) return 0
    if (a === null || b === null) return a === null ? 1 : -1
    return (a < b ? -1 : 1) * (down ? -1 : 1)
  })
}

/** What has a field, and what a click on its name in a report chooses. */
const typed = ['publisher', 'domain', 'seat']
const clicked = ['via', ...facets]

/** Fields that limit the report. @param {{ names: Record<string, string>, one: string | undefined }} props */
function Filters({ names, one }) {
  const submit = withFields((field) =>
    setQuery(Object.fromEntries(typed.map((name) => [name, field(name).trim()]))),
  )
  const limits = clicked.flatMap((name) => {
    const [filter = name] = [filters[name]]
    const value = names[filter]
    return value === undefined ? [] : [{ name, filter, value: shown(name, value) }]
  })
  return html`<form class="row" onSubmit=${submit} key=${JSON.stringify(names)}>
    <${Pick} label="supplier" value=${names['ssp'] ?? ''} options=${[['', 'all'], ...supplierOptions()]}
      pick=${(/** @type {string} */ ssp) => setQuery({ ssp })} />
    ${
      one === undefined
        ? html`${typed.map(
            (name) =>
              html`<label class="pick" key=${name}>${name} <input name=${name} class="short" defaultValue=${names[name] ?? ''} placeholder="any" /></label>`,
          )}<button type="submit">Show</button>`
        : html`<span class="soft">${dimensions[one]} has sums by supplier, source, hour and day.</span>`
    }
    ${limits.map(
      ({ name, filter, value }) =>
        html`<button type="button" key=${name} aria-label=${`All of ${name}`} onClick=${() => setQuery({ [filter]: '' })}>${name}: <bdi>${value}</bdi> ✕</button>`,
    )}</form>`
}

/** @param {{ rows: ReportRow[], by: string, then: string, range: import('./report-common.js').Range }} props */
function Result({ rows, by, then, range }) {
  const columns = columnsOf(by, then)
  const onSort = (/** @type {Column<ReportRow>} */ { name, text }) => {
    sort.value = { by: name, down: sort.value.by === name ? !sort.value.down : !text }
  }
  return html`${
    isTime(by) &&
    then === '' &&
    html`<${Chart} label="Margin" ...${seriesOf(rows, bucketsOf(range, by), ({ margin }) => Number(margin))} by=${by}
      isRunning=${range.to >= dateOf(Date.now())} format=${amount} />`
  }
  ${table({
    label: 'Report',
    rows: sorted(rows, columns),
    columns,
    keyOf: ({ key, key2 }) => JSON.stringify([key, key2]),
    size: 'fills',
    most,
    sort: sort.value,
    onSort,
  })}
  ${
    rows.length >= most &&
    html`<p class="soft">${isTime(by) ? `The first ${most} of ${integer(rows.length)} rows in this order` : `The ${most} rows with the largest margin`}. The file has all.</p>`
  }`
}

/** The time zone of the address, if it has one, becomes that of the page; a bookmark shows what it showed. */
function useZone() {
  const wanted = route.value.query.get('tz')
  const [followed, setFollowed] = useState(false)
  useEffect(() => {
    if (!followed && wanted !== null && isZone(wanted)) setZone(wanted)
    setFollowed(true)
  }, [])
  useEffect(() => {
    if (followed && zone.value !== wanted) setQuery({ tz: zone.value })
  }, [followed, zone.value])
  return followed
}

export function Reports() {
  const isReady = useZone()
  const { query } = route.value
  const range = rangeOf()
  const by = query.get('by') ?? 'supplier'
  const then = query.get('and') ?? ''
  /** @type {Record<string, string>} */
  const names = Object.fromEntries(
    [...query].filter(([name]) => Object.values(filters).includes(name)),
  )
  const one = facets.find(
    (name) => [by, then].includes(name) || names[filters[name] ?? ''] !== undefined,
  )
  const more = { by: then === '' ? by : `${by},${then}`, ...names }
  const path = reportPath('summary', range, {
    ...more,
    ...(isTime(by) ? {} : { top: String(most) }),
  })
  const rows = useRead(
    async () => (isReady ? /** @type {ReportRow[]} */ (await call(path)) : null),
    [path, isReady],
    reportsEvery,
  )
  const options = Object.entries(dimensions)
  return html`<div class="row"><h1>Reports</h1></div>
    <section class="sheet" aria-label="What is reported">
      <div class="row"><${RangePick} range=${range} />
        <${Pick} label="by" value=${by} options=${options}
          pick=${(/** @type {string} */ chosen) =>
            setQuery({
              by: chosen,
              ...without(chosen),
              ...(chosen === then || excludes(chosen, then) ? { and: '' } : {}),
            })} />
        <${Pick} label="and" value=${then} options=${[['', 'nothing else'], ...options.filter(([name]) => name !== by && !excludes(name, by))]}
          pick=${(/** @type {string} */ chosen) => setQuery({ and: chosen, ...without(chosen) })} />
        <${Csv} report="summary" range=${range} more=${more} />
        <span class="soft">days of ${zone}; the address keeps this report</span></div>
      <${Filters} names=${names} one=${one} />
    </section>
    ${loaded(
      rows,
      (all) =>
        all &&
        html`<${Result} rows=${all} by=${by} then=${then} range=${range} />
      <${Comparison} rows=${all} by=${by} then=${then} />`,
      live.value?.integrations.length === 0
        ? html`<${NoSupplier} />`
        : html`No bids and no wins in this range. Choose other days, or see on <a href="#/go-live">Go live</a> which step is missing.`,
    )}`
}
