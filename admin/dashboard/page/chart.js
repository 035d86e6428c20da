/** A time series with axes, a cursor and zoom (drag; double click resets), by uPlot. */
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { absent, bucketTime, tickTime, zone } from './format.js'
import { html } from './html.js'

const dark = matchMedia('(prefers-color-scheme: dark)')
const height = 240

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

/**
 * `times`: the beginnings of all hours or days that are shown, in seconds since 1970, oldest first; `values`: null leaves a gap.
 * `isRunning`: the last of them has not ended. It is drawn dashed, since what is still to come would look like a fall.
 * @param {{ label: string, by: string, isRunning: boolean, times: number[], values: (number | null)[],
 *   format: (value: number | null | undefined) => string }} props
 */
export function Chart({ label, by, isRunning, times, values, format }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null))
  useEffect(() => {
    const { current } = box
    if (current === null || times.length === 0) return
    const style = getComputedStyle(document.documentElement)
    const colour = (/** @type {string} */ name) => {
      const probe = document.createElement('span')
      probe.style.color = style.getPropertyValue(name)
      current.append(probe)
      const { color } = getComputedStyle(probe)
      probe.remove()
      return color
    }
    const last = times.length - 1
    const ended = isRunning ? values.with(last, null) : values
    const running = values.map((value, at) => (isRunning && at >= last - 1 ? value : null))
    const isAlone = (/** @type {number} */ at) =>
      ended[at] != null && ended[at - 1] == null && ended[at + 1] == null
    /** @type {uPlot | null} */
    let plot = null
    const draw = () => {
      plot?.destroy()
      const [soft, line, accent] = [colour('--soft'), colour('--line'), colour('--accent')]
      const axis = {
        stroke: soft,
        grid: { stroke: line, width: 1 },
        ticks: { stroke: line, width: 1 },
      }
      plot = new uPlot(
        {
          width: current.clientWidth,
          height,
          padding: [null, 24, null, null],
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone.value),
          scales: { y: { range } },
          series: [
            {
              label: by === 'day' ? 'Day' : 'Hour',
              value: (_, at) => (at == null ? absent : bucketTime(at * 1000, by)),
            },
            {
              label,
              stroke: accent,
              width: 2,
              // a value between two gaps has no line
              points: {
                show: true,
                filter: (_, _series, show) =>
                  show || times.length < 50
                    ? null
                    : times.flatMap((_at, at) => (isAlone(at) ? [at] : [])),
              },
              value: (_, value) => format(value),
            },
            {
              label: `${label}, this ${by} so far`,
              stroke: accent,
              width: 2,
              dash: [4, 4],
              points: {
                show: true,
                filter: () => (isRunning ? [last] : []),
                fill: colour('--sheet'),
              },
              value: (_, value, _series, at) => format(at === last ? value : null),
              show: isRunning,
            },
          ],
          axes: [
            {
              ...axis,
              space: 80,
              values: (_, all, _axis, _space, step) => all.map((at) => tickTime(at * 1000, step)),
            },
            { ...axis, size: 90, values: (_, all) => all.map((value) => format(value)) },
          ],
        },
        [times, ended, running],
        current,
      )
    }
    draw()
    const observer = new ResizeObserver(() => plot?.setSize({ width: current.clientWidth, height }))
    observer.observe(current)
    dark.addEventListener('change', draw)
    return () => {
      observer.disconnect()
      dark.removeEventListener('change', draw)
      plot?.destroy()
    }
  }, [label, by, isRunning, zone.value, JSON.stringify([times, values])])
  const gaps = values.slice(0, isRunning ? -1 : undefined).filter((value) => value === null).length
  const notes = [
    isRunning ? `the running ${by} is dashed` : '',
    gaps === 0
      ? ''
      : `${gaps} ${gaps === 1 ? by : `${by}s`} without figures ${gaps === 1 ? 'is a gap' : 'are gaps'}`,
  ].filter((note) => note !== '')
  return html`<div class="chart" role="img" aria-label=${`${label} over time, as a line; ${notes.map((note) => `${note}; `).join('')}the table below has the same figures`} ref=${box}></div>
    ${notes.length > 0 && html`<p class="soft note">${sentence(notes.join('; '))}</p>`}`
}

const sentence = (/** @type {string} */ text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
