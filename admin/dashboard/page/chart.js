/** A time series with axes, a cursor and zoom (drag; double click resets), by uPlot. */
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { absent, bucketTime, sentence, tickTime, time, zone } from './format.js'
import { html } from './html.js'

const dark = matchMedia('(prefers-color-scheme: dark)')
const height = 240

/**
 * `times`: the beginnings of all entries that are shown, in seconds since 1970, oldest first; `values`: null leaves a gap.
 * `isRunning`: the last entry has not ended. It is drawn dashed, since what is still to come would look like a fall. `step`: hours,
 * days or minutes of an entry, as `by` says. `before`: the values a day earlier, drawn grey; `band`: the interval around
 * `values`; `marks`: what was changed, as lines, `at` in milliseconds.
 * @typedef {object} ChartProps
 * @property {string} label
 * @property {string} by
 * @property {number} [step]
 * @property {boolean} isRunning
 * @property {number[]} times
 * @property {(number | null)[]} values
 * @property {(number | null)[] | undefined} [before]
 * @property {{ low: (number | null)[], high: (number | null)[] } | undefined} [band]
 * @property {readonly { at: number, text: string }[]} [marks]
 * @property {(value: number | null | undefined) => string} format
 */

/** Contains 0, so that the height of the line says what it means. Without a value other than 0 the axis ends at 1. */
function range(
  /** @type {uPlot} */ _plot,
  /** @type {number | null} */ low,
  /** @type {number | null} */ high,
) {
  const [min, max] = [Math.min(0, low ?? 0), Math.max(0, high ?? 0)]
  if (min === max) return /** @type {[number, number]} */ ([0, 1])
  const [from, to] = uPlot.rangeNum(min, max, 0.1, true)
  return /** @type {[number, number]} */ ([min === 0 ? 0 : from, max === 0 ? 0 : to])
}

/** The colours of the page within an element, as the canvas wants them. @param {HTMLElement} within */
function coloursOf(within) {
  const style = getComputedStyle(document.documentElement)
  return (/** @type {string} */ name) => {
    const probe = document.createElement('span')
    probe.style.color = style.getPropertyValue(name)
    within.append(probe)
    const { color } = getComputedStyle(probe)
    probe.remove()
    return color
  }
}

/** A line at each time of a change. @param {readonly { at: number }[]} marks @param {string} stroke */
const lines = (marks, stroke) => (/** @type {uPlot} */ plot) => {
  const { ctx, bbox } = plot
  ctx.save()
  ctx.strokeStyle = stroke
  ctx.lineWidth = devicePixelRatio
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio])
  for (const { at: instant } of marks) {
    const x = Math.round(plot.valToPos(instant / 1000, 'x', true))
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
  }
  ctx.restore()
}

/** What an entry that has not ended is called. @param {ChartProps} props */
const running = ({ by, step = 1 }) => (step === 1 ? by : `${step} ${by}s`)

/** The series of a chart with their values. @param {ChartProps} props @param {(name: string) => string} colour */
function seriesOf(props, colour) {
  const { label, by, isRunning, times, values, before, band, format } = props
  const last = times.length - 1
  const ended = isRunning ? values.with(last, null) : values
  const partial = values.map((value, index) => (isRunning && index >= last - 1 ? value : null))
  const isAlone = (/** @type {number} */ index) =>
    ended[index] != null && ended[index - 1] == null && ended[index + 1] == null
  const value = (/** @type {uPlot} */ _, /** @type {number | null} */ shown) => format(shown)
  const accent = colour('--accent')
  const hidden = { points: { show: false }, stroke: 'transparent', value }
  /** @type {[uPlot.Series, (number | null)[]][]} */
  const shown = [
    [
      {
        label: by === 'day' ? 'Day' : by === 'hour' ? 'Hour' : 'Time',
        value: (_, seconds) => (seconds == null ? absent : bucketTime(seconds * 1000, by)),
      },
      times,
    ],
    [
      {
        label,
        stroke: accent,
        width: 2,
        // a value between two gaps has no line
        points: {
          show: true,
          filter: () =>
            times.length < 50
              ? null
              : times.flatMap((_at, index) => (isAlone(index) ? [index] : [])),
        },
        value,
      },
      ended,
    ],
    [
      {
        label: `${label}, ${props.step === undefined || props.step === 1 ? 'this' : 'these'} ${running(props)} so far`,
        stroke: accent,
        width: 2,
        dash: [4, 4],
        points: { show: true, filter: () => (isRunning ? [last] : []), fill: colour('--sheet') },
        value: (_, shown, _series, index) => format(index === last ? shown : null),
        show: isRunning,
      },
      partial,
    ],
  ]
  if (before !== undefined)
    shown.push([
      {
        label: '24 hours before',
        stroke: colour('--faded'),
        width: 1.5,
        points: { show: false },
        value,
      },
      before,
    ])
  if (band !== undefined)
    shown.push(
      [{ ...hidden, label: 'at most' }, band.high],
      [{ ...hidden, label: 'at least' }, band.low],
    )
  return shown
}

/** @param {ChartProps} props @param {HTMLElement} within */
function draw(props, within) {
  const colour = coloursOf(within)
  const { marks = [], format, band } = props
  const series = seriesOf(props, colour)
  const [soft, line] = [colour('--soft'), colour('--line')]
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
  const ends = /** @type {[number, number]} */ ([series.length - 2, series.length - 1])
  return new uPlot(
    {
      width: within.clientWidth,
      height,
      padding: [null, 24, null, null],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone.value),
      scales: { y: { range } },
      series: series.map(([data]) => data),
      bands: band === undefined ? [] : [{ series: ends, fill: colour('--band') }],
      hooks: { draw: [lines(marks, colour('--warn'))] },
      axes: [
        {
          ...axis,
          space: 80,
          values: (_, all, _axis, _space, step) =>
            all.map((seconds) => tickTime(seconds * 1000, step)),
        },
        { ...axis, size: 90, values: (_, all) => all.map((value) => format(value)) },
      ],
    },
    /** @type {uPlot.AlignedData} */ (series.map(([, values]) => values)),
    within,
  )
}

/** What the lines do not say by themselves. @param {ChartProps} props */
function notesOf(props) {
  const { by, step = 1, isRunning, values, before, band } = props
  const gaps = values.slice(0, isRunning ? -1 : undefined).filter((value) => value === null).length
  const count = gaps * step
  return [
    isRunning ? `the running ${running(props)} ${step === 1 ? 'is' : 'are'} dashed` : '',
    count === 0
      ? ''
      : `${count} ${count === 1 ? by : `${by}s`} without figures ${count === 1 ? 'is a gap' : 'are gaps'}`,
    before === undefined ? '' : 'grey: 24 hours before',
    band === undefined ? '' : 'shaded: 95% interval',
  ].filter((note) => note !== '')
}

/** @param {ChartProps} props */
export function Chart(props) {
  const { label, times, marks = [] } = props
  const box = useRef(/** @type {HTMLElement | null} */ (null))
  useEffect(() => {
    const { current } = box
    if (current === null || times.length === 0) return
    let plot = draw(props, current)
    const again = () => {
      plot.destroy()
      plot = draw(props, current)
    }
    const observer = new ResizeObserver(() => plot.setSize({ width: current.clientWidth, height }))
    observer.observe(current)
    dark.addEventListener('change', again)
    return () => {
      observer.disconnect()
      dark.removeEventListener('change', again)
      plot.destroy()
    }
  }, [zone.value, JSON.stringify(props)])
  const notes = notesOf(props)
  return html`<div class="chart" role="img" aria-label=${`${label} over time, as a line; ${notes.map((note) => `${note}; `).join('')}the table below has the same figures`} ref=${box}></div>
    ${notes.length > 0 && html`<p class="soft note">${sentence(notes.join('; '))}</p>`}
    ${
      marks.length > 0 &&
      html`<details><summary>${marks.length === 1 ? '1 change' : `${marks.length} changes`} in this time, as dotted lines</summary>
        <ul class="marks">${marks.map(({ at: instant, text }) => html`<li key=${`${instant} ${text}`}><time>${time(instant)}</time> ${text}</li>`)}</ul></details>`
    }`
}
