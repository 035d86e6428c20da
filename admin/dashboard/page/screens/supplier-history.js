/** History of a supplier from the reports: by hour or day, publisher, domain and seat. */
import { useState } from 'preact/hooks'
import { Chart } from '../chart.js'
import { amounts, loaded, Name, number, table, text, useRead } from '../components.js'
import { dateOf, integer, money, percent, time, zone } from '../format.js'
import { Pick } from '../forms.js'
import { html } from '../html.js'
import { route, setQuery } from '../route.js'
import { call } from '../session.js'
import { currency, reportsEvery } from '../state.js'
import { bucketsOf, Csv, RangePick, rangeOf, reportPath, seriesOf } from './report-common.js'

/** @import { ReportRow } from '../../../reports/columns.ts' */
/** @import { Range } from './report-common.js' */
/** @typedef {Record<string, string>} Names of publisher, domain and seat: what the history is limited to */

/** @param {Range} range @param {Record<string, string>} more */
const useReport = (range, more) => {
  const path = reportPath('margin', range, more)
  return useRead(() => /** @type {Promise<ReportRow[]>} */ (call(path)), [path], reportsEvery)
}

/** @typedef {{ figureOf: (row: ReportRow) => number | null, format: (value: number | null | undefined) => string }} Measure */

const amount = (/** @type {number | null | undefined} */ value) => money(value, currency.value)
/** @type {Measure} */
const margin = { figureOf: (row) => Number(row.margin), format: amount }
/** @type {Readonly<Record<string, Measure>>} */
const measures = {
  Margin: margin,
  Revenue: { figureOf: (row) => Number(row.revenue), format: amount },
  Bids: { figureOf: (row) => row.decided, format: integer },
  Wins: { figureOf: (row) => row.wins, format: integer },
  'Win rate': {
    figureOf: (row) => (row.decided === 0 ? null : row.wins / row.decided),
    format: percent,
  },
}

/** @param {string} name @param {import('../components.js').Column<ReportRow>['cell']} cell @returns {import('../components.js').Column<ReportRow>[]} */
const columnsOf = (name, cell) => [
  text(name, cell),
  amounts('Margin', ({ margin }) => margin),
  number(
    'of revenue',
    ({ margin, revenue }) =>
      percent(Number(revenue) === 0 ? null : Number(margin) / Number(revenue)),
    { wide: true },
  ),
  amounts('Revenue', ({ revenue }) => revenue, { wide: true }),
  number('Bids', ({ decided }) => integer(decided)),
  number('Wins', ({ wins }) => integer(wins), { wide: true }),
  number('Win rate', (row) => percent(measures['Win rate']?.figureOf(row)), { wide: true }),
]

/** Rows of names, and of times. The files have all. */
const [most, mostTimes] = [50, 500]
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

/** @param {{ ssp: string, range: Range, names: Names, dimension: Dimension }} props */
function Top({ ssp, range, names, dimension: { by, title, none, names: words = {} } }) {
  const { [by]: chosen, ...others } = names
  const more = { ssp, by, ...others }
  const rows = useReport(range, { ...more, top: String(most) })
  const columns = columnsOf(title.slice(0, -1), ({ key }) =>
    key === ''
      ? none
      : html`<button type="button" class="link" aria-pressed=${chosen === key}
          onClick=${() => setQuery({ [by]: chosen === key ? '' : key })}><${Name} name=${words[key] ?? key} /></button>`,
  )
  return html`<section><div class="row"><h2>${title}</h2><${Csv} report="margin" range=${range} more=${more} /></div>
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
  return html`<section class="sheet" aria-label="History"><div class="row"><h2>History</h2>
      <${RangePick} range=${range} reset=${{ by: '' }} />
      <${Pick} label="by" value=${by} options=${['hour', 'day'].map((name) => [name, name])} pick=${(/** @type {string} */ chosen) => setQuery({ by: chosen })} />
      <${Pick} label="shown" value=${shown} options=${Object.keys(measures).map((name) => [name, name])} pick=${setShown} />
      <${Csv} report="margin" range=${range} more=${more} />
      ${Object.entries(names).map(
        ([name, value]) =>
          html`<button key=${name} type="button" class="tag" onClick=${() => setQuery({ [name]: '' })}
          aria-label=${`Only ${name} ${value}: show all`}>Only ${name} ${value} <span aria-hidden="true">×</span></button>`,
      )}
      <span class="soft">all nodes, days of ${zone}</span></div>
    ${loaded(
      rows,
      (all) => html`
      <${Chart} label=${shown} ...${seriesOf(all, bucketsOf(range, by), measure.figureOf)} by=${by}
        isRunning=${range.to >= dateOf(Date.now())} format=${measure.format} />
      <details><summary>The same as a table</summary>${table({ label: 'History as a table', rows: all.toReversed(), columns, keyOf: ({ key }) => key, most: mostTimes })}
        ${all.length > mostTimes && html`<p class="soft">The last ${mostTimes} of ${integer(all.length)}. The file has all.</p>`}</details>`,
      'No bids and no wins in this range.',
    )}
    <div class="columns tables">${dimensions.map((dimension) => html`<${Top} key=${dimension.by} ssp=${ssp} range=${range} names=${names} dimension=${dimension} />`)}</div>
  </section>`
}
