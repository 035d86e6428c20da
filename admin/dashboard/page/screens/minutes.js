/** The last two days by minute, of one supplier or of all. */
import { useState } from 'preact/hooks'
import { Chart } from '../chart.js'
import { loaded, number, table, text, useRead } from '../components.js'
import { duration, integer, money, percent, plain, rate, time, zone } from '../format.js'
import { Pick } from '../forms.js'
import { html } from '../html.js'
import { route, setQuery } from '../route.js'
import { call } from '../session.js'
import { currency, live, reportsEvery, supplierOptions } from '../state.js'
import { NoSupplier } from './supplier-common.js'

/** @import { Minutes } from '../../../fleet/minutes.ts' */
/** @typedef {keyof Minutes['values']} Series */
/** @typedef {{ series: Series, format: (value: number | null | undefined) => string, perSecond?: true, band?: [low: Series, high: Series] }} Measure */

const amount = (/** @type {number | null | undefined} */ value) => money(value, currency.value)
/** @type {Measure} */
const requests = { series: 'requests', format: rate, perSecond: true }
/** @type {Readonly<Record<string, Measure>>} */
const measures = {
  'Requests / s': requests,
  Failed: { series: 'failed', format: percent },
  Refused: { series: 'refused', format: percent },
  p50: { series: 'p50', format: duration },
  p99: { series: 'p99', format: duration },
  'Bids / s': { series: 'bids', format: rate, perSecond: true },
  Wins: { series: 'wins', format: integer },
  'Kept wins': { series: 'kept_wins', format: percent, band: ['kept_wins_low', 'kept_wins_high'] },
  'Kept spend': {
    series: 'kept_spend',
    format: percent,
    band: ['kept_spend_low', 'kept_spend_high'],
  },
  Revenue: { series: 'revenue', format: amount },
  Margin: { series: 'margin', format: amount },
  Factor: { series: 'factor', format: plain },
}

/** Hours that are shown, and by default the minutes of one entry. */
const ranges = /** @type {const} */ ({ 1: 1, 6: 1, 24: 5, 48: 10 })
const hour = 3_600_000

/** @param {string} ssp @param {number} from @param {number} to @param {number} step @returns {Promise<Minutes>} */
const read = (ssp, from, to, step) =>
  call(
    `/api/svc/minutes/?${new URLSearchParams({
      ...(ssp === '' ? {} : { ssp }),
      ...{ from: String(from), to: String(to), step: String(step) },
    })}`,
  )

/** Today, and where the range is at most a day the same hours of yesterday. @param {string} ssp @param {number} hours @param {number} step */
async function readBoth(ssp, hours, step) {
  const now = Date.now()
  const from = now - hours * hour
  const today = await read(ssp, from, now, step)
  const before = hours > 24 ? null : await read(ssp, from - 24 * hour, now - 24 * hour, step)
  return { today, before }
}

/** @param {Minutes} minutes @param {Series} name @param {Measure} measure @returns {(number | null)[]} */
const valuesOf = ({ values, step }, name, { perSecond }) =>
  perSecond ? values[name].map((value) => value && value / (60 * step)) : values[name]

/** Entries that are always shown, so that a chart which has just begun has a width. */
const fewest = 30

/** How many entries to leave out at the begin, since nothing was counted by minute yet. @param {Minutes} minutes */
const entriesBefore = ({ from, step, since, values }) =>
  since === null
    ? 0
    : Math.max(
        0,
        Math.min(Math.floor((since - from) / (step * 60_000)), values.requests.length - fewest),
      )

const isKnown = (/** @type {(number | null)[]} */ values) => values.some((value) => value !== null)

/** The rows are made when someone opens them. @param {{ label: string, times: number[], values: (number | null)[], before: (number | null)[] | undefined, format: Measure['format'] }} props */
function Table({ label, times, values, before, format }) {
  const [open, setOpen] = useState(false)
  const rows = times.map((seconds, n) => ({
    instant: seconds * 1000,
    value: values[n],
    before: before?.[n],
  }))
  const columns = [
    text('Time', (/** @type {typeof rows[number]} */ { instant }) => time(instant)),
    number(label, (/** @type {typeof rows[number]} */ { value }) => format(value)),
    ...(before === undefined
      ? []
      : [
          number('24 hours before', (/** @type {typeof rows[number]} */ minute) =>
            format(minute.before),
          ),
        ]),
  ]
  return html`<details onToggle=${(/** @type {Event} */ { target }) => setOpen(/** @type {HTMLDetailsElement} */ (target).open)}>
    <summary>These figures as a table</summary>
    ${open && table({ label: `${label} by minute`, rows: rows.reverse(), columns, keyOf: ({ instant }) => String(instant), size: 'tall' })}</details>`
}

/** @param {{ ssp: string }} props '': all suppliers */
export function MinutesOf({ ssp }) {
  const { query } = route.value
  const shown = query.get('figure') ?? 'Requests / s'
  const measure = measures[shown] ?? requests
  const hours = /** @type {keyof typeof ranges} */ (
    Number(query.get('hours')) in ranges ? Number(query.get('hours')) : 6
  )
  const stepMinutes = Number(query.get('each')) || (measure.band ? 60 : ranges[hours])
  const minutes = useRead(
    () => readBoth(ssp, hours, stepMinutes),
    [ssp, hours, stepMinutes],
    reportsEvery,
  )
  return html`<section class="sheet" aria-label="By minute"><div class="row"><h2>By minute</h2>
      <div class="row" role="group" aria-label="Hours">${Object.keys(ranges).map(
        (value) => html`<button key=${value} type="button" aria-pressed=${String(hours) === value}
          onClick=${() => setQuery({ hours: value, each: '' })}>${value} h</button>`,
      )}</div>
      <${Pick} label="figure" value=${shown} options=${Object.keys(measures).map((name) => [name, name])}
        pick=${(/** @type {string} */ figure) => setQuery({ figure, each: '' })} />
      <${Pick} label="each" value=${String(stepMinutes)} options=${[1, 5, 10, 30, 60].map((value) => [String(value), `${value} min`])}
        pick=${(/** @type {string} */ value) => setQuery({ each: value })} />
      <span class="soft">all nodes, times of ${zone}</span></div>
    ${loaded(minutes, ({ today, before }) => {
      const { from, step, since, now, marks } = today
      const skipped = entriesBefore(today)
      const seriesOf = (/** @type {Minutes} */ minutes, /** @type {Series} */ name) =>
        valuesOf(minutes, name, measure).slice(skipped)
      const values = seriesOf(today, measure.series)
      const times = values.map((_, index) => from / 1000 + (skipped + index) * step * 60)
      const [low, high] = measure.band ?? []
      const past = before === null ? [] : seriesOf(before, measure.series).slice(0, values.length)
      const earlier = isKnown(past) ? [...past, ...values.slice(past.length).fill(null)] : undefined
      const isRunning = values.at(-1) !== null && (times.at(-1) ?? 0) * 1000 <= now
      return html`${
        !isKnown(values) &&
        html`<p class="soft">${measure.band ? 'Unknown: too few wins in each of these times, or no holdout to compare with.' : 'No figures in this time. Those of a minute appear when it has ended; choose more hours for earlier ones.'}</p>`
      }
      <${Chart} label=${shown} by="minute" step=${step} isRunning=${isRunning} times=${times} values=${values} before=${earlier}
        band=${low && high && isKnown(values) ? { low: seriesOf(today, low), high: seriesOf(today, high) } : undefined} marks=${marks} format=${measure.format} />
      <${Table} label=${shown} times=${times} values=${values} before=${earlier} format=${measure.format} />
      ${since !== null && since > from && html`<p class="soft">Figures by minute begin at ${time(since)}.</p>`}`
    })}
  </section>`
}

export function MinutesScreen() {
  if (live.value?.integrations.length === 0) return html`<h1>Last two days</h1><${NoSupplier} />`
  const ssp = route.value.query.get('ssp') ?? ''
  return html`<div class="row"><h1>Last two days</h1>
      <${Pick} label="Supplier" value=${ssp} options=${[['', 'all suppliers'], ...supplierOptions()]}
        pick=${(/** @type {string} */ value) => setQuery({ ssp: value })} /></div>
    <${MinutesOf} ssp=${ssp} />`
}
